"""Dies below launchers, debuggers, compilers and other runtimes, and keeps what they print.

    python tests/py/data/log/make_launcher_samples.py

What is not installed is passed over: node, java, valgrind, gdb, strace, make, ctest, clang, gcc;
pytest-xdist, gunicorn and supervisor as modules of the Python that runs this. Paths of the machine
are replaced, and of long outputs only the beginning and the end are kept.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from make_samples import FOLDER, made_public, quiet, run

POOL = """
#include <cstdio>
struct Pool { int slots[4]; };
__attribute__((noinline)) int take(Pool* pool) { return pool->slots[3]; }
int main(int count, char**) { Pool* pool = count > 9 ? new Pool : nullptr; return take(pool); }
"""
CRASH = "import ctypes\nctypes.string_at(0)\n"
TEST = "import ctypes\ndef test_take():\n    ctypes.string_at(0)\n"
JAVA = """
public class Pool {
  static void take(sun.misc.Unsafe unsafe) { unsafe.putAddress(0, 0); }
  public static void main(String[] names) throws Exception {
    var field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
    field.setAccessible(true);
    take((sun.misc.Unsafe) field.get(null));
  }
}
"""
NODE = "const kept = []; for (;;) kept.push(new Array(1000).fill(0.5));"
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(pool CXX)
enable_testing()
add_executable(pool pool.cpp)
add_test(NAME take COMMAND pool)
"""
SUPERVISOR = """
[supervisord]
nodaemon=true
logfile=/dev/null
pidfile={folder}/supervisord.pid
[program:serve]
command={python} {folder}/crash.py
startsecs=0
autorestart=true
startretries=2
redirect_stderr=true
"""
KEPT = 60


def keep(name: str, text: str, folder: str) -> None:
    lines = made_public(text, folder, "/usr").replace(sys.prefix, "/usr")
    lines = lines.replace(sys.base_prefix, "/usr").splitlines()
    lines = [re.sub(r"[ \t]+$", "", re.sub(r"/usr/lib/jvm/[\w.-]+", "/usr/lib/jvm", one)) for one in lines]
    if len(lines) > KEPT:
        lines = [*lines[: KEPT - 20], *lines[-20:]]
    (FOLDER / f"{name}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(name, len(lines))


def is_there(*programs: str) -> bool:
    return all(shutil.which(program) for program in programs)


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def for_a_while(command: list[str], folder: str, seconds: float) -> str:
    """What a server prints until it is asked to end."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=quiet,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": folder},
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=30)[0].decode("utf-8", "replace")


def kill_the_compiler(folder: str, program: str, number: int) -> str:
    """gcc waits for its source; its cc1 dies meanwhile."""
    driver = subprocess.Popen(
        [program, "-x", "c", "-c", "-", "-o", f"{folder}/never.o"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, preexec_fn=quiet,
    )
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children")
    for _ in range(100):
        time.sleep(0.05)
        if found := children.read_text(encoding="ascii").split():
            time.sleep(0.2)
            os.kill(int(found[0]), number)
            break
    return driver.communicate(timeout=30)[0].decode()


def debuggers(folder: str) -> None:
    subprocess.run(["g++", "-g", "-O1", "-fno-omit-frame-pointer", "pool.cpp", "-o", "pool"], cwd=folder, check=True)
    if is_there("gdb"):
        keep("gdb_backtrace", run(["gdb", "-nx", "-batch", "-ex", "run", "-ex", "bt", "./pool"], folder), folder)
    if is_there("valgrind"):
        keep("valgrind", run(["valgrind", "-q", "./pool"], folder), folder)
    if is_there("strace"):
        text = run(["strace", "-e", "trace=none", "./pool"], folder)
        keep("strace", text, folder)
    if is_there("make"):
        (Path(folder) / "Makefile").write_text("test:\n\t./pool\n", encoding="utf-8")
        keep("make", run(["make", "test"], folder), folder)
    if is_there("cmake", "ctest"):
        (Path(folder) / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
        subprocess.run(["cmake", "-B", "build", "."], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", "build"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        keep("ctest", run(["ctest", "--test-dir", "build"], folder), folder)


def compilers(folder: str) -> None:
    if is_there("gcc"):
        keep("gcc_killed", kill_the_compiler(folder, "gcc", signal.SIGKILL), folder)
        keep("gcc_fault", kill_the_compiler(folder, "gcc", signal.SIGSEGV), folder)
    if is_there("clang"):
        (Path(folder) / "crash.c").write_text("#pragma clang __debug crash\n", encoding="utf-8")
        keep("clang_crash", run(["clang", "-c", "crash.c", "-fno-crash-diagnostics"], folder), folder)


def languages(folder: str) -> None:
    if is_there("node"):
        (Path(folder) / "heap.js").write_text(NODE, encoding="utf-8")
        (Path(folder) / "node.sh").write_text("node --max-old-space-size=20 heap.js\n", encoding="utf-8")
        keep("node_heap", run(["bash", "node.sh"], folder), folder)
    if is_there("java", "javac"):
        (Path(folder) / "Pool.java").write_text(JAVA, encoding="utf-8")
        subprocess.run(["javac", "Pool.java"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        keep("java_fault", run(["java", "-XX:-CreateCoredumpOnCrash", "Pool"], folder), folder)


def servers(folder: str) -> None:
    (Path(folder) / "crash.py").write_text(CRASH, encoding="utf-8")
    if has_module("xdist"):
        (Path(folder) / "test_pool.py").write_text(TEST, encoding="utf-8")
        keep("pytest_xdist", run([sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider",
                                  "--max-worker-restart=0", "test_pool.py"], folder), folder)  # fmt: skip
    if has_module("gunicorn"):
        command = [sys.executable, "-m", "gunicorn", "-w", "1", "-b", f"unix:{folder}/socket", "crash:app"]
        keep("gunicorn_restarts", for_a_while(command, folder, 0.8), folder)
    if has_module("supervisor"):
        configuration = SUPERVISOR.format(folder=folder, python=sys.executable)
        (Path(folder) / "supervisord.conf").write_text(configuration, encoding="utf-8")
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", f"{folder}/supervisord.conf"]
        keep("supervisord_restarts", for_a_while(command, folder, 6), folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pool.cpp").write_text(POOL, encoding="utf-8")
        debuggers(folder)
        compilers(folder)
        languages(folder)
        servers(folder)


if __name__ == "__main__":
    main()
