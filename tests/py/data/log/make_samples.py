"""Dies in every way that can be had here, and keeps what is printed: `died/*.log`.

    python tests/py/data/log/make_samples.py [PYTHON...]

Each PYTHON (3.11 or later) prints its own faulthandler dumps. g++ is needed, rustc is used where
there is one. Paths of the machine are replaced; addresses and process ids stay as they came.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "died"

FAULT = """
import faulthandler, os, signal
faulthandler.enable()
def inner():
    os.kill(os.getpid(), signal.{signal})
def outer():
    inner()
outer()
"""
PYTHON = {
    "null_pointer": """
import ctypes, faulthandler
faulthandler.enable()
def read_block():
    ctypes.string_at(0x48)
read_block()
""",
    "os_abort": "import faulthandler, os\nfaulthandler.enable()\nos.abort()\n",
    "fatal_error": """
import ctypes
ctypes.pythonapi.Py_FatalError.argtypes = [ctypes.c_char_p]
ctypes.pythonapi.Py_FatalError(b"the pool is broken")
""",
    "thread_fault": """
import ctypes, faulthandler, threading
faulthandler.enable()
def in_thread():
    ctypes.string_at(0)
thread = threading.Thread(target=in_thread, name="reader")
thread.start()
thread.join()
""",
    "process_pool": """
import concurrent.futures, ctypes, faulthandler
def job(number):
    faulthandler.enable()
    return ctypes.string_at(0)
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        print(pool.submit(job, 1).result())
""",
    "process_exit_code": """
import multiprocessing, os, signal
def job():
    os.kill(os.getpid(), signal.SIGSEGV)
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=job, name="Worker-1")
    child.start()
    child.join()
    print(f"Process {child.name} pid {child.pid} ended, exit code: {child.exitcode}")
""",
    "broken_pipe": """
import multiprocessing, os
def job(pipe):
    os._exit(3)
if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=job, args=(theirs,))
    child.start()
    theirs.close()
    ours.recv()
""",
    "chained": """
def load():
    return {}["weights"]
def start():
    try:
        load()
    except KeyError as error:
        raise RuntimeError("the model could not be loaded") from error
start()
""",
    "exception_group": """
def check(number):
    raise ValueError(f"block {number} is not free")
def run():
    errors = []
    for number in (7, 8):
        try:
            check(number)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("blocks", errors)
run()
""",
    "subprocess_error": """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(0)"], check=True)
""",
    "remote_traceback": """
import multiprocessing
def job(number):
    return 1 // number
if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool:
        pool.map(job, [0])
""",
    "missing_library": "import ctypes\nctypes.CDLL('libmissing_example.so.1')\n",
    "waits_too_long": """
import faulthandler, time
faulthandler.dump_traceback_later(0.2, exit=True)
def wait_for_reply():
    time.sleep(10)
wait_for_reply()
""",
}
CXX = {
    "assertion": "#include <cassert>\nint get(int id, int size) { assert(id < size); return id; }\n"
    "int main(int n, char**) { return get(n + 8, 4); }",
    "terminate": "#include <stdexcept>\nvoid step() { throw std::runtime_error(\"no free block\"); }\n"
    "int main() { step(); }",
    "terminate_in_thread": "#include <stdexcept>\n#include <thread>\nint main() { std::thread worker("
    "[] { throw std::out_of_range(\"block 9\"); }); worker.join(); }",
    "double_free": "#include <cstdlib>\nvoid release(void* p) { free(p); }\n"
    "int main() { void* p = malloc(4000); void* q = malloc(1); release(p); release(p); return q != 0; }",
    "invalid_free": "#include <cstdlib>\nint main() { char* p = (char*)malloc(64);\n"
    "  char* volatile q = p + 8; free(q); }",
    "heap_overflow": "#include <cstdlib>\n#include <cstring>\nint main() {\n"
    "  char* p = (char*)malloc(24); char* q = (char*)malloc(2000); char* volatile r = p;\n"
    "  malloc(16); memset(r, 'x', 40); free(q); malloc(3000); }",
    "stack_smash": "#include <cstring>\nvoid copy(const char* s) { char b[8]; strcpy(b, s); "
    "asm volatile(\"\" :: \"r\"(b) : \"memory\"); }\n"
    "int main(int n, char** a) { copy(a[0]); return n; }",
    "buffer_overflow": "#include <cstring>\n#include <cstdio>\nchar b[4];\n"
    "int main(int n, char** a) { strcpy(b, a[0]); puts(b); return n; }",
    "pure_virtual": "struct Base { Base() { call(); } void call() { work(); } "
    "virtual void work() = 0; };\nstruct Own : Base { void work() override {} };\n"
    "int main() { Own own; }",
    "segmentation_fault": "int main() { volatile int* p = (int*)0x48; return *p; }",
    "thread_fault": "#include <thread>\nint main() { std::thread worker([] { volatile int* p = "
    "(int*)0x48; *p = 1; }); worker.join(); }",
    "illegal_instruction": "int main() { __builtin_trap(); }",
    "division": "int main(int n, char**) { volatile int zero = n - 1, one = 7; return one / zero; }",
    "bus_error": "#include <fcntl.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
    "int main() { char name[] = \"cutXXXXXX\"; int f = mkstemp(name); unlink(name);\n"
    "  volatile char* p = (char*)mmap(0, 4096, PROT_READ, MAP_SHARED, f, 0); return p[100]; }",
    "killed": "#include <csignal>\nint main() { raise(SIGKILL); }",
    "backtrace_symbols": "#include <csignal>\n#include <execinfo.h>\n#include <unistd.h>\n"
    "void report(int) { void* f[32]; write(2, \"*** SIGSEGV received at time=1768464765 on cpu 1 ***\\n\", 53);\n"
    "  backtrace_symbols_fd(f, backtrace(f, 32), 2); _exit(139); }\n"
    "extern \"C\" int read_block(volatile int* p) { return *p; }\n"
    "int main() { signal(SIGSEGV, report); return read_block((int*)0x48); }",
}
OWN = {
    "rich_panel": """
from rich.traceback import install
install(show_locals=True)
def take(pool, number):
    return pool["free"][number]
def serve(requests):
    pool = {"free": [3, 5]}
    for one in requests:
        take(pool, one)
if __name__ == "__main__":
    serve([0, 1, 2])
""",
    "started_in_import": """
import concurrent.futures, multiprocessing
context = multiprocessing.get_context("spawn")
with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
    print(list(pool.map(abs, [-1])))
""",
}
RUST = "fn pick(v: &[i32], i: usize) -> i32 { v[i] }\nfn main() { pick(&[1, 2, 3], std::env::args().count() + 8); }\n"


def quiet() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command: list[str], folder: str, **environment: str) -> str:
    process = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": folder, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=quiet,  # noqa: PLW1509
        timeout=60,
        check=False,
    )
    return process.stdout.decode("utf-8", "replace")


def made_public(text: str, folder: str, prefix: str) -> str:
    text = text.replace(folder, "/opt/app").replace(os.path.realpath(folder), "/opt/app")
    text = text.replace(prefix, "/usr").replace(str(Path.home()), "/home/user")
    return re.sub(r"/rustc/[0-9a-f]{40}", "/rustc/" + "0" * 40, text)


def write(name: str, text: str, folder: str, prefix: str = "/usr") -> None:
    (FOLDER / f"{name}.log").write_text(made_public(text, folder, prefix), encoding="utf-8")
    print(name, len(text))


def pythons(interpreters: list[str], folder: str) -> None:
    for number, python in enumerate(interpreters):
        asked = "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"
        prefix, version = run([python, "-c", asked], folder).split()
        signals = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")
        programs = {f"faulthandler_{one}": FAULT.format(signal=one) for one in signals}
        programs["null_pointer"] = PYTHON["null_pointer"]
        programs["process_pool"] = PYTHON["process_pool"]
        if number == 0:
            programs.update(PYTHON)
        for name, text in programs.items():
            (Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
            output = run([python, f"{name}.py"], folder)
            write(f"python{version}_{name}", output, folder, prefix)


def own_python(folder: str) -> None:
    """What needs the project's own packages: this Python dies."""
    for name, text in OWN.items():
        (Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
        output = run([sys.executable, f"{name}.py"], folder)
        output = made_public(output, folder, sys.base_prefix)
        write(f"python_{name}", "".join(map(reframed, output.splitlines(True))), folder)


def reframed(line: str) -> str:
    """A line of a frame as wide as it was before a path in it was replaced."""
    is_framed = line.startswith("\u2502") and line.rstrip().endswith("\u2502")
    inside = line.strip()[1:-1].rstrip()
    return f"\u2502{inside:<78}\u2502\n" if is_framed else line


def native(folder: str) -> None:
    for name, text in CXX.items():
        source = Path(folder) / f"{name}.cpp"
        source.write_text(text, encoding="utf-8")
        flags = ["-O1", "-g0", "-pthread", "-rdynamic", "-w", "-Wno-error"]
        flags += ["-fstack-protector-all"] if name == "stack_smash" else []
        flags += ["-O2", "-D_FORTIFY_SOURCE=2"] if name == "buffer_overflow" else []
        flags += ["-O0"] if name in {"heap_overflow", "double_free", "pure_virtual", "stack_smash"} else []
        subprocess.run(["g++", *flags, str(source), "-o", str(source.with_suffix(""))], check=True)
        # The shell writes its own line, as it does for scripts.
        script = Path(folder) / f"{name}.sh"
        script.write_text(f"./{name}\necho status $?\n", encoding="utf-8")
        write(f"cxx_{name}", run(["bash", script.name], folder), folder)


def rust(folder: str) -> None:
    if shutil.which("rustc") is None:
        return
    source = Path(folder) / "pick.rs"
    source.write_text(RUST, encoding="utf-8")
    done = subprocess.run(["rustc", "-g", str(source), "-o", f"{folder}/pick"], check=False)
    if done.returncode == 0:
        write("rust_panic", run(["./pick"], folder, RUST_BACKTRACE="1"), folder)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pythons(sys.argv[1:] or [sys.executable], folder)
        own_python(folder)
        native(folder)
        rust(folder)


if __name__ == "__main__":
    main()
