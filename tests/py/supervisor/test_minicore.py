"""What readers print of a minicore is what they print of the kernel's full core."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.py.integration.victim_cases import core_pattern_for_cwd
from tests.py.supervisor.support import Minicore, Supervisor, read_core

FORENSICS = str(Path(sys.executable).parent / "forensics")

PYTHON_CRASH = """
import ctypes, json, threading, time, types
def make(depth):
    names = {}
    text = f"def step_{depth}(n): return next_{depth}(n + 1)"
    exec(compile(text, f"module_{depth}.py", "exec"), names)
    return names
ballast = [[str(index) * 20, {index: [index]}] for index in range(200_000)]
steps = [make(depth) for depth in range(60)]
def last(n): ctypes.memset(0x10, n, 8)
for depth, names in enumerate(steps):
    following = steps[depth + 1][f"step_{depth + 1}"] if depth < 59 else last
    names[f"next_{depth}"] = following
def waits(): time.sleep(100)
for _ in range(3): threading.Thread(target=waits, daemon=True).start()
time.sleep(0.2)
steps[0]["step_0"](0)
"""


def full_core(folder: Path, *command: str | Path) -> Path:
    """Let the kernel write its own core of a program that crashes."""
    folder.mkdir()

    def unlimited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with core_pattern_for_cwd():
        subprocess.run(command, cwd=folder, preexec_fn=unlimited, capture_output=True, check=False)
    [core] = folder.iterdir()
    return core


def printed(*command: str | Path) -> str:
    """A reader's output, without what differs from run to run."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    text = re.sub(r"0x[0-9a-f]+|\b\d{3,7}\b", "N", done.stdout)
    return re.sub(r"(?m)^(executable|pid|state|.*zombie).*$", "", text)


def by_thread(text: str, start: str) -> list[str]:
    """A reader's threads, in an order that does not depend on the run."""
    parts = re.split(f"(?m)^(?={start})", text)
    return sorted(re.sub(rf"(?m)^{start}.*$", "", part).strip() for part in parts[1:])


def gdb_backtrace(core: Path, program: Path) -> str:
    text = printed("gdb", "-nx", "-batch", "-ex", "bt", program, core)
    return "\n".join(line for line in text.splitlines() if line.startswith("#"))


def eu_stack(core: Path) -> list[str]:
    return by_thread(printed("eu-stack", "--core", core), "TID")


def pystack(core: Path, program: Path) -> list[str]:
    text = printed("pystack", "core", "--native", core, program)
    return by_thread(text, "Traceback for thread")


def assert_readers_agree(full: Path, small: Path, program: Path) -> None:
    assert gdb_backtrace(small, program) == gdb_backtrace(full, program) != ""
    assert eu_stack(small) == eu_stack(full) != []
    assert pystack(small, program) == pystack(full, program)


def verdict(core: Path) -> tuple[Any, ...]:
    """What the tool says of a core, as far as it must not depend on the core's size."""
    done = subprocess.run(
        (FORENSICS, "core", "--format", "json", core), capture_output=True, check=False
    )
    [crash] = json.loads(done.stdout)["crashes"]
    culprit = crash["culprit"]
    frames = [frame["function"] for frame in crash["threads"][0]["frames"]]
    return crash["fault"]["kind"], culprit["function"], culprit["line"], crash["signal"], frames


@pytest.mark.gdb
def test_of_a_native_crash(supervisor: Supervisor, victim: Path) -> None:
    small = supervisor.run(victim, "crash").core.path
    full = full_core(supervisor.folder / "full", victim, "crash")

    assert_readers_agree(full, small, victim)
    assert verdict(small) == verdict(full)


@pytest.mark.gdb
def test_of_many_threads(supervisor: Supervisor, victim: Path) -> None:
    small = supervisor.run(victim, "threads", "50").core.path
    full = full_core(supervisor.folder / "full", victim, "threads", "50")

    assert_readers_agree(full, small, victim)


@pytest.mark.gdb
def test_of_a_python_crash_with_a_large_heap(supervisor: Supervisor) -> None:
    program = Path(os.path.realpath(sys.executable))
    script = supervisor.folder / "crash.py"
    script.write_text(PYTHON_CRASH)
    command = (sys.executable, script)
    small = supervisor.run(*command).core.path
    full = full_core(supervisor.folder / "full", *command)

    assert small.stat().st_size < full.stat().st_size / 3
    assert_readers_agree(full, small, program)
    assert verdict(small) == verdict(full)


@pytest.mark.gdb
def test_of_a_full_core_that_was_cut_down(
    supervisor: Supervisor, victim: Path, executable: Path
) -> None:
    full = full_core(supervisor.folder / "full", victim, "threads", "20")
    small = supervisor.folder / "small"

    subprocess.run((executable, "--minify", full, small), check=True)

    assert read_core(small).signal == read_core(full).signal
    assert read_core(small).threads == read_core(full).threads
    assert_readers_agree(full, small, victim)
    assert verdict(small) == verdict(full)


def test_cutting_down_what_is_no_core_says_so(supervisor: Supervisor, executable: Path) -> None:
    text = supervisor.folder / "text"
    text.write_text("no core " * 100)

    done = subprocess.run(
        (executable, "--minify", text, supervisor.folder / "out"), capture_output=True, check=False
    )

    assert done.returncode == 125
    assert b"not a 64-bit ELF core" in done.stderr
    assert not (supervisor.folder / "out").exists()


def budgeted(supervisor: Supervisor, *options: str) -> Supervisor:
    return Supervisor(executable=supervisor.executable, folder=supervisor.folder, options=options)


def test_the_budget_holds_and_the_loss_is_told(supervisor: Supervisor, victim: Path) -> None:
    core = budgeted(supervisor, "--budget", "512K").run(victim, "threads", "100").core

    kept = sum(in_file for _, in_file, _ in core.loads)
    assert core.selection["kept_bytes"] == kept <= 512 << 10
    assert core.selection["budget"] == 512 << 10
    assert sum(core.selection["dropped"].values()) > 0
    assert core.selection["kept"]["crash_stack"] > 0


def test_every_mapping_has_a_segment(supervisor: Supervisor, victim: Path) -> None:
    core = supervisor.run(victim, "crash").core

    for (start, _, size), (following, _, _) in zip(core.loads, core.loads[1:], strict=False):
        assert start + size <= following
    assert sum(size for _, _, size in core.loads) > 1 << 20


def text_of(core: Minicore) -> bytes:
    return core.path.read_bytes()


ARGUMENT = "--api-key=CANARY-argv-91b7e5"
ENVIRONMENT = {"API_TOKEN": "CANARY-environ-55aa01"}
SECRETS = (b"CANARY-argv", b"CANARY-environ", b"CANARY-kv-block")


def test_secrets_stay_out_of_the_core(supervisor: Supervisor, victim: Path) -> None:
    careful = Supervisor(
        executable=supervisor.executable, folder=supervisor.folder, environment=ENVIRONMENT
    )

    core = careful.run(victim, "secrets", ARGUMENT).core

    assert [secret for secret in SECRETS if secret in text_of(core)] == []
    assert core.command == bytes(victim)
    assert core.selection["excluded_bytes"] >= 8192


def test_secrets_stay_out_of_a_python_core(supervisor: Supervisor) -> None:
    careful = Supervisor(
        executable=supervisor.executable, folder=supervisor.folder, environment=ENVIRONMENT
    )
    code = (
        "import os, sys, ctypes\n"
        "def use(token, key): ctypes.memset(0x10, 1, 8)\n"
        "use(os.environ['API_TOKEN'], sys.argv[1])"
    )

    core = careful.run(sys.executable, "-c", code, ARGUMENT).core

    assert [secret for secret in SECRETS if secret in text_of(core)] == []


def test_secrets_stay_out_of_a_core_that_was_cut_down(
    supervisor: Supervisor, victim: Path, executable: Path
) -> None:
    token = ENVIRONMENT["API_TOKEN"]
    full = full_core(
        supervisor.folder / "full", "env", f"API_TOKEN={token}", victim, "secrets", ARGUMENT
    )
    small = supervisor.folder / "small"

    subprocess.run((executable, "--minify", full, small), check=True)

    assert b"CANARY-argv" in full.read_bytes()
    assert [secret for secret in SECRETS if secret in small.read_bytes()] == []
    assert read_core(small).command == bytes(victim)


def test_secrets_are_kept_on_request_but_never_what_the_program_excluded(
    supervisor: Supervisor, victim: Path
) -> None:
    open_ = Supervisor(
        executable=supervisor.executable,
        folder=supervisor.folder,
        environment=ENVIRONMENT,
        options=("--include-secrets",),
    )

    core = open_.run(victim, "secrets", ARGUMENT).core

    assert [secret for secret in SECRETS if secret in text_of(core)] == list(SECRETS[:2])
    assert b"--api-key=" in core.command  # of which the kernel keeps 80 bytes, too


def test_full_keeps_more_than_the_budget(supervisor: Supervisor) -> None:
    code = "import ctypes; kept = [bytes(5000) for _ in range(20000)]; ctypes.memset(0x10, 1, 8)"

    core = budgeted(supervisor, "--full").run(sys.executable, "-c", code).core

    assert core.selection["kept_bytes"] > 90 << 20
