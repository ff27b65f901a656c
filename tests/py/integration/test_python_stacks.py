"""Both halves of a stack: C++ over Python over C++, in every Python that is here."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.integration.crashes import compile_program, leave_core
from tests.py.integration.tool import Json, forensics, triage_in_process

from vllm_forensics.capture.files import map_core
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.investigate import python_layer
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.python_stack import PythonThread

pytestmark = pytest.mark.gdb

LIBRARY = """\
#include <chrono>
#include <thread>
struct Request { char padding[0x38]; long tokens; };
extern "C" __attribute__((noinline)) long count(Request* volatile request) {
  return request->tokens;  // line 5
}
extern "C" __attribute__((noinline)) long call_back(long (*handler)(long)) {
  return handler(1) + 1;
}
extern "C" long count_later(Request* request) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return count(request) + 1;
}
extern "C" long count_elsewhere(Request* request) {
  std::thread worker([=] { count(request); });
  worker.join();
  return 0;
}
"""
PARALLEL = """\
#include <omp.h>
#include <unistd.h>
extern "C" void scale(double* values) {
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) values[7] = 2; else sleep(60);  // line 5
}
"""
PROGRAM = """\
import ctypes, sys, threading, time
library = ctypes.CDLL(sys.argv[1])

@ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)
def on_event(number):
    return getattr(library, sys.argv[2])(None)  # line 6

def serve():
    return library.call_back(on_event)  # line 9

def spin():
    while True:
        pass

if sys.argv[2] == "count_later":
    threading.Thread(target=spin, daemon=True).start()
    time.sleep(0.1)
serve()
"""


OWN_READING = ("python3.11", "python3.12", "python3.13")


def pythons() -> list[str]:
    """The interpreters of several versions, by name: the one of the tests, and others on PATH."""
    return [f"python3.{minor}" for minor in range(9, 16)]


def interpreter(name: str) -> str:
    """Its path; pyenv keeps versions that are not chosen beside the one that is."""
    running = f"python3.{sys.version_info.minor}"
    if name == running:
        return sys.executable
    version = Path(sys.base_prefix).parent
    found = [
        *sorted(version.glob(f"{name.removeprefix('python')}.*/bin/{name}")),
        shutil.which(name),
    ]
    for path in found:
        works = path and subprocess.run([path, "-c", ""], capture_output=True, check=False)
        if works and works.returncode == 0:
            return str(path)
    pytest.skip(f"{name} is not on this machine")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    return compile_program(LIBRARY, folder / "libevents.so", "-shared", "-fPIC")


def crash_of(python: str, library: Path, where: str, folder: Path) -> Json:
    program = folder / "server.py"
    program.write_text(PROGRAM)
    command = [interpreter(python), str(program), str(library), where]
    core = leave_core(command, folder / "crash", dies_of=signal.SIGSEGV)
    [crash] = triage_in_process(core)["crashes"]
    assert isinstance(crash, dict)
    return crash


def shown(thread: Json) -> list[tuple[str, str | None]]:
    """The frames that are not the interpreter's or a runtime's, as (kind, function)."""
    mine = {"count", "call_back", "on_event", "serve", "<module>", "spin"}
    return [tuple_of(frame) for frame in thread["frames"] if frame["function"] in mine]


def tuple_of(frame: Json) -> tuple[str, str | None]:
    return frame["kind"], frame["function"]


@pytest.mark.parametrize("python", pythons())
def test_native_and_python_frames_stand_as_they_were(
    python: str, library: Path, tmp_path: Path
) -> None:
    crash = crash_of(python, library, "count", tmp_path)

    thread = crash["threads"][0]
    assert shown(thread) == [
        ("native", "count"),
        ("python", "on_event"),
        ("native", "call_back"),
        ("python", "serve"),
        ("python", "<module>"),
    ]
    by_name = {frame["function"]: frame for frame in thread["frames"]}
    assert by_name["on_event"]["line"] == 6
    assert by_name["serve"]["line"] == 9
    assert by_name["on_event"]["file"] == str(tmp_path / "server.py")
    assert by_name["serve"]["tier"] == ("notes" if python in OWN_READING else "pystack")
    assert by_name["call_back"]["tier"] == "libdw"
    assert [frame["index"] for frame in thread["frames"]] == list(range(len(thread["frames"])))
    assert crash["culprit"]["function"] == "count"
    assert crash["culprit"]["line"] == 5
    assert "on_event" in crash["explanation"]


@pytest.mark.parametrize("python", pythons())
def test_it_is_said_who_has_the_lock_and_who_waits(
    python: str, library: Path, tmp_path: Path
) -> None:
    """ctypes gives the lock up around a call, so the spinning thread had it."""
    crash = crash_of(python, library, "count_later", tmp_path)

    other = next(thread for thread in crash["threads"] if ("python", "spin") in shown(thread))

    assert other["gil"] == "holds"
    assert crash["threads"][0]["gil"] is None


def test_a_native_thread_that_crashed_comes_first(library: Path, tmp_path: Path) -> None:
    crash = crash_of(f"python3.{sys.version_info.minor}", library, "count_elsewhere", tmp_path)

    first, *others = crash["threads"]
    assert first["crashed"]
    assert shown(first) == [("native", "count")]
    assert ("python", "on_event") in shown(others[0])


def test_the_python_code_that_began_a_parallel_loop_is_named(tmp_path: Path) -> None:
    library = compile_program(PARALLEL, tmp_path / "libloop.so", "-shared", "-fPIC", "-fopenmp")
    program = tmp_path / "loop.py"
    program.write_text(
        "import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
        "def scale():\n    library.scale(None)\nscale()\n"
    )
    core = leave_core([sys.executable, str(program), str(library)], tmp_path / "crash")

    [crash] = triage_in_process(core)["crashes"]

    first, *others = crash["threads"]
    assert not any(frame["kind"] == "python" for frame in first["frames"])
    [caller] = [
        t["id"] for t in others if ("python", "scale") in [tuple_of(f) for f in t["frames"]]
    ]
    assert crash["culprit"]["line"] == 5
    assert (
        f"The thread most likely works in a parallel loop of thread {caller}, which in Python was "
        f"below scale ({program}:4)." in crash["explanation"]
    )
    told = crash["parallel_caller"]
    assert (told["thread"], told["certainty"]) == (caller, "likely")
    assert [tuple_of(f) for f in told["frames"]] == [("python", "scale"), ("python", "<module>")]


def test_without_native_code_of_ones_own_the_culprit_is_python(tmp_path: Path) -> None:
    program = tmp_path / "reads.py"
    program.write_text("import ctypes\ndef read():\n    ctypes.string_at(0x10)\nread()\n")
    core = leave_core([sys.executable, str(program)], tmp_path / "crash")

    [crash] = triage_in_process(core)["crashes"]

    assert crash["culprit"]["function"] == "read"
    assert crash["culprit"]["file"] == str(program)
    assert crash["culprit"]["line"] == 3


VARIED = """\
import asyncio, ctypes, threading, time
library = ctypes.CDLL(None)

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(one, other):
    ctypes.string_at(0x10)
    return 0

class Meta(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)

class Engine(metaclass=Meta):
    def __init__(self, depth):
        self.descend(depth)

    def descend(self, depth):
        if depth:
            return self.descend(depth - 1)
        return sorted([2, 1], key=lambda item: next(self.generate(item)))

    def generate(self, item):
        array = (ctypes.c_int * 3)(3, 2, 1)
        yield [library.qsort(array, 3, 4, compare) for _ in range(1)]

async def step():
    exec("Engine(5)", globals())

async def serve():
    await step()

def spin():
    while True:
        pass

def sleep():
    threading.Event().wait()

for work in (spin, sleep):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
asyncio.run(serve())
"""


@pytest.mark.parametrize("python", OWN_READING)
def test_our_own_reading_of_frames_is_what_pystack_reads(python: str, tmp_path: Path) -> None:
    program = tmp_path / "varied.py"
    program.write_text(VARIED)
    core = leave_core(
        [interpreter(python), str(program)], tmp_path / "crash", dies_of=signal.SIGSEGV
    )
    store = ModuleStore()
    notes = CoreImage(map_core(str(core)), store)
    store.program = notes.process.program

    own = python_layer.read_by_ourselves(notes)
    theirs = python_layer.read_by_pystack(str(core), notes, store)

    assert own is not None
    assert {thread.holds_gil for thread in own} == {True, False}
    assert told_without_reader(own) == told_without_reader(theirs)


def told_without_reader(threads: tuple[PythonThread, ...]) -> list[object]:
    return [
        (thread.tid, thread.holds_gil, [replace(frame, tier=Tier.NOTES) for frame in thread.frames])
        for thread in threads
    ]


BALLAST = """\
import asyncio, ctypes, email, http.client, json, sys, unittest, xml.dom.minidom
library = ctypes.CDLL(sys.argv[1])
held = [{"block": str(number)} for number in range(200_000)]

def step(request):
    return library.count_elsewhere(request)  # line 6

def serve(depth):
    return serve(depth - 1) if depth else step(None)  # line 9

serve(20)  # line 11
"""


@pytest.mark.parametrize("python", OWN_READING)
def test_a_small_core_holds_the_calls_of_the_thread_that_waits(
    python: str, library: Path, tmp_path: Path
) -> None:
    program = tmp_path / "ballast.py"
    program.write_text(BALLAST)
    report = tmp_path / "report.json"

    forensics(
        *("run", "--no-store", "--budget", "4", "--format", "json", "--output", report, "--"),
        *(interpreter(python), program, library),
        cwd=tmp_path,
    )

    [crash] = json.loads(report.read_text())["crashes"]
    threads = ([f for f in one["frames"] if f["kind"] == "python"] for one in crash["threads"])
    [calls] = filter(None, threads)
    assert [call["line"] for call in calls] == [6, *[9] * 21, 11]
    assert not any("Python's calls" in gap["what"] for gap in crash["gaps"])
