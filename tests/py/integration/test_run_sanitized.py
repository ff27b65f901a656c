"""`forensics run --asan` and its kin with real compilers: what is seen, of whom, by which way."""

import json
import shutil
import signal
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.sanitized_build import SanitizedBuild, compile_module, ready_build
from tests.py.integration.tool import REPOSITORY, Answer, Json, forensics

pytestmark = pytest.mark.asan

ABORTED = 128 + signal.SIGABRT
START = """\
import concurrent.futures, multiprocessing, sys, time
import planted

def work():
    planted.read_after_free()

if __name__ == "__main__":
    how, kind = sys.argv[1:]
    context = multiprocessing.get_context(how)
    if kind == "process":
        child = context.Process(target=work)
        child.start()
        child.join()
        print("child", child.exitcode)
    elif kind == "pool":
        with context.Pool(1) as pool:
            [worker] = multiprocessing.active_children()
            pool.apply_async(work)
            while worker.exitcode is None:  # the pool's own thread waits for it too
                time.sleep(0.01)
            print("child", worker.exitcode)
    else:
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                pool.submit(work).result()
            except concurrent.futures.process.BrokenProcessPool:
                print("child -6")
"""
TESTS = """\
import planted

def test_undefined():
    planted.overflow(1)

def test_dies():
    planted.read_after_free()
"""


def run(folder: Path, *arguments: str | Path, **environment: str) -> tuple[Answer, Json]:
    """Run in the folder, and read the JSON that came of it."""
    output = folder / "report.json"
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LD_PRELOAD": "", "ASAN_OPTIONS": ""}
    answer = forensics(
        *("run", "--format", "json", "--output", output, *arguments),
        cwd=folder,
        environment=plain | environment,
        timeout_s=120,
    )
    value = json.loads(output.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    schema = REPOSITORY / "docs/schemas/forensics.run.1.json"
    jsonschema.validate(value, json.loads(schema.read_text(encoding="utf-8")))
    return answer, value


def under_asan(folder: Path, build: SanitizedBuild, *command: str) -> tuple[Answer, Json]:
    return run(folder, "--asan", "--ubsan", "--build", build.folder, "--", *command)


def only_report(value: Json) -> Json:
    [report] = value["reports"]
    assert isinstance(report, dict)
    return report


def python_functions(report: Json) -> list[str]:
    return [frame["function"] for frame in report["python"]]


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_one_crash_is_one_result(tmp_path: Path, family: str) -> None:
    build = ready_build(family, "asan-ubsan")
    (tmp_path / "script.py").write_text(
        "import planted\ndef outer():\n  planted.read_after_free()\nouter()\n"
    )

    answer, value = under_asan(tmp_path, build, "python", "script.py")

    report = only_report(value)
    [crash] = value["crashes"]
    assert (answer.status, value["sanitized"]["method"]) == (ABORTED, "launcher")
    assert (report["kind"], report["culprit"]["function"]) == (
        "heap-use-after-free",
        "planted::read_after_free()",
    )
    assert [(frame["function"], frame["line"]) for frame in report["python"]] == [
        ("outer", 3),
        ("<module>", 4),
    ]
    assert (report["pid"], report["core"]) == (crash["pid"], crash["core"])
    assert Path(crash["core"]).is_file()


def test_a_person_reads_the_chain_python_the_core_and_one_conclusion(tmp_path: Path) -> None:
    build = ready_build("gcc", "asan-ubsan")

    answer = forensics(
        *("run", "--asan", "--ubsan", "--build", build.folder),
        *("--", "python", "-c", "import planted; planted.read_after_free()"),
        cwd=tmp_path,
    )

    told = answer.stderr[answer.stderr.index("heap-use-after-free") :]
    words = [
        "allocate ●",
        "free     ●",
        "use      ✖",
        "Python   <module>",
        "Core     ",
        "So       A heap-use",
    ]
    places = [told.index(word) for word in words]
    assert places == sorted(places)
    assert "SIGABRT" not in told  # the crash is not told a second time


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("fork", "process"),
        ("spawn", "process"),
        ("forkserver", "process"),
        ("spawn", "pool"),
        ("fork", "executor"),
    ],
)
def test_every_way_to_start_a_child_is_watched(tmp_path: Path, how: str, kind: str) -> None:
    (tmp_path / "start.py").write_text(START)

    answer, value = under_asan(
        tmp_path, ready_build("gcc", "asan-ubsan"), "python", "start.py", how, kind
    )

    report = only_report(value)
    assert (answer.status, answer.stdout) == (0, "child -6\n")
    assert report["pid"] != value["processes"][0]["pid"]
    assert (python_functions(report)[0], bool(report["core"])) == ("work", True)


@pytest.mark.parametrize("extra", [(), ("-p", "xdist", "-n", "2")], ids=["captured", "xdist"])
def test_pytest_loses_no_report(tmp_path: Path, extra: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    build = ready_build("gcc", "asan-ubsan")

    answer, value = under_asan(tmp_path, build, "python", "-m", "pytest", *extra, "test_it.py")

    found = {(report["kind"], python_functions(report)[0]) for report in value["reports"]}
    assert answer.status == (1 if extra else ABORTED)
    assert found == {
        ("heap-use-after-free", "test_dies"),
        ("signed-integer-overflow", "test_undefined"),
    }


def test_a_script_of_the_environment_is_started_by_the_launcher(tmp_path: Path) -> None:
    build = ready_build("gcc", "asan-ubsan")
    script = tmp_path / "tool"
    first = f"#!{sys.executable}\n"
    if " " in first:  # as pip writes it, since a first line cannot name such a path
        first = f"""#!/bin/sh\n'\''exec' "{sys.executable}" "$0" "$@"\n' \'\''\n"""
    script.write_text(f"{first}import sys, planted\nprint(sys.argv[1:])\n")
    script.chmod(0o755)

    answer, value = under_asan(tmp_path, build, "./tool", "one", "two")

    assert (answer.status, answer.stdout) == (0, "['one', 'two']\n")
    assert value["sanitized"]["method"] == "launcher"


@pytest.mark.parametrize("command", ["python", "tool-of-environment"])
def test_what_a_shell_script_starts_by_its_name_is_watched(tmp_path: Path, command: str) -> None:
    build = ready_build("gcc", "asan-ubsan")
    tool = build.python.parent / "tool-of-environment"
    body = "import sys, planted\nprint(sys.argv[1:], flush=True)\nplanted.read_after_free()\n"
    # As pip writes it where the interpreter's path holds a space.
    tool.write_text(f"#!/bin/sh\n'''exec' \"{build.python}\" \"$0\" \"$@\"\n' '''\n{body}")
    tool.chmod(0o755)
    (tmp_path / "script.py").write_text(body)
    argument = "script.py one" if command == "python" else "one"

    answer, value = under_asan(tmp_path, build, "sh", "-c", f"{command} {argument}; exit 5")

    report = only_report(value)
    assert (answer.status, answer.stdout) == (5, "['one']\n")
    assert (value["sanitized"]["method"], report["kind"]) == ("launcher", "heap-use-after-free")
    assert "by the name on PATH" in value["sanitized"]["notes"][0]


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_a_cpp_exception_is_caught_and_shells_stay_clean(tmp_path: Path, family: str) -> None:
    code = """
import planted, subprocess
try:
    planted.throw_and_catch()
except ValueError as error:
    print(error)
print(subprocess.run(["sh", "-c", "echo [$LD_PRELOAD$PYTHONMALLOC]; grep -c asan /proc/$$/maps"],
                     capture_output=True, text=True).stdout.split())
"""

    answer, _ = under_asan(tmp_path, ready_build(family, "asan-ubsan"), "python", "-c", code)

    assert (answer.status, answer.stdout) == (0, "thrown in C++\n['[]', '0']\n")


@pytest.mark.parametrize(
    ("code", "options", "status", "words"),
    [
        ("raise SystemExit(3)", "", 3, "no report"),
        ("raise SystemExit(1)", "", 1, "status 1, which is Python's for an exception"),
        ("planted.read_after_free()", "", ABORTED, "1 report"),
        ("planted.read_after_free()", "abort_on_error=0", 86, "1 report"),
        ("import os; os.kill(os.getpid(), 15)", "", 128 + 15, "no report"),
    ],
)
def test_ends_are_told_apart_by_their_status(
    tmp_path: Path, code: str, options: str, status: int, words: str
) -> None:
    build = ready_build("gcc", "asan-ubsan")

    answer, value = run(
        tmp_path,
        *("--asan", "--ubsan", "--build", build.folder),
        *("--", "python", "-c", f"import planted; {code}"),
        ASAN_OPTIONS=options,
    )

    assert (answer.status, value["status"]) == (status, status)
    assert words in value["sanitized"]["verdict"]
    assert bool(value["crashes"]) == (status == ABORTED)


def test_a_thread_without_python_is_told_with_the_main_threads_stack(tmp_path: Path) -> None:
    code = "import planted\ndef outer(): planted.read_in_thread()\nouter()"

    _, value = under_asan(tmp_path, ready_build("gcc", "asan-ubsan"), "python", "-c", code)

    report = only_report(value)
    assert (report["thread"], report["python_thread"]) == ("T1", "main")
    assert python_functions(report) == ["outer", "<module>"]


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_a_race_is_reported_with_python(tmp_path: Path, family: str) -> None:
    build = ready_build(family, "tsan")
    code = "import planted\ndef outer(): print(planted.race() > 0)\nouter()"

    answer, value = run(tmp_path, "--tsan", "--build", build.folder, "--", "python", "-c", code)

    report = value["reports"][0]
    assert (answer.status, answer.stdout) == (86, "True\n")
    assert (report["sanitizer"], report["kind"]) == ("ThreadSanitizer", "data-race")
    if sys.version_info < (3, 13):  # which hides the function that writes the stack
        assert python_functions(report) == ["outer", "<module>"]


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_a_python_that_was_not_linked_anew_is_given_the_modules_own_runtime(
    tmp_path: Path, family: str
) -> None:
    modules = tmp_path / "the modules"
    compile_module(modules, family, "asan")
    code = (
        "import planted\ntry: planted.throw_and_catch()\nexcept ValueError as error: print(error)\n"
        "planted.read_after_free()"
    )

    answer, value = run(
        tmp_path,
        *("--asan", "--build", modules, "--", sys.executable, "-c", code),
        PYTHONPATH=str(modules),
    )

    report = only_report(value)
    assert (answer.status, answer.stdout) == (ABORTED, "thrown in C++\n")
    assert (value["sanitized"]["method"], report["kind"]) == ("preload", "heap-use-after-free")
    assert [event["role"] for event in report["chain"]] == ["allocate", "free", "use"]
    assert (python_functions(report), bool(report["core"])) == (["<module>"], True)


@pytest.mark.parametrize(("call", "seen"), [("copy_past_end", True), ("store_past_end", False)])
def test_code_that_was_not_built_for_it_is_watched_in_part(
    tmp_path: Path, call: str, *, seen: bool
) -> None:
    compile_module(tmp_path, "gcc", None)

    answer, value = run(
        tmp_path,
        *("--preload-only", "--", sys.executable, "-c", f"import planted; planted.{call}()"),
        PYTHONPATH=str(tmp_path),
    )

    kinds = [report["kind"] for report in value["reports"]]
    assert kinds == (["heap-buffer-overflow"] if seen else [])
    assert answer.status == (ABORTED if seen else 0)
    assert "not seen are the code's own loads and stores" in value["sanitized"]["notes"][0]


def test_an_allocator_in_the_users_preload_is_taken_out_and_said(tmp_path: Path) -> None:
    allocator = tmp_path / "libjemalloc.so.2"
    [some] = {path.resolve() for path in Path("/usr/lib").glob("*-linux-gnu/libz.so.1")}
    shutil.copy(some, allocator)
    build = ready_build("gcc", "asan-ubsan")

    answer, value = run(
        tmp_path,
        *("--asan", "--ubsan", "--build", build.folder, "--", "python", "-c", "print('alive')"),
        LD_PRELOAD=str(allocator),
    )

    assert (answer.status, answer.stdout) == (0, "alive\n")
    assert "takes malloc over" in value["sanitized"]["notes"][0]


def test_two_runtimes_in_one_process_are_named_and_not_nothing_found(tmp_path: Path) -> None:
    compile_module(tmp_path, "clang", "asan")
    build = ready_build("gcc", "asan-ubsan")

    answer, value = run(
        tmp_path,
        *("--asan", "--ubsan", "--build", build.folder),
        *("--", "python", "-c", "import sys; sys.path.insert(0, '.'); import planted"),
    )

    [failure] = value["failures"]
    assert answer.status != 0
    assert "two runtimes of AddressSanitizer" in failure["error"]
    assert "one runtime only" in failure["remedy"]


@pytest.mark.parametrize(
    ("options", "before", "words"),
    [
        ("verify_asan_link_order=0", (), "take it out of ASAN_OPTIONS"),
        ("log_path=/no/such/folder/x", (), "no log_path in ASAN_OPTIONS"),
        ("", ("prlimit", "--as=8000000000"), "ulimit -v unlimited"),
    ],
)
def test_what_would_make_the_run_worthless_is_refused_with_its_fix(
    tmp_path: Path, options: str, before: tuple[str, ...], words: str
) -> None:
    build = ready_build("gcc", "asan-ubsan")

    answer = forensics(
        *("run", "--asan", "--ubsan", "--build", build.folder, "--", "python", "-c", "print(1)"),
        before=before,
        cwd=tmp_path,
        environment={"ASAN_OPTIONS": options},
    )

    assert (answer.status, answer.stdout) == (2, "")
    assert words in answer.stderr
    assert list((tmp_path / ".forensics" / "run").iterdir()) == []


def test_a_build_of_another_flavour_is_refused(tmp_path: Path) -> None:
    build = ready_build("gcc", "tsan")

    answer = forensics("run", "--asan", "--build", build.folder, "--", "python", cwd=tmp_path)

    assert answer.status == 2
    assert "forensics run --tsan --build" in answer.stderr


def test_a_build_with_more_sanitizers_than_asked_for_serves_too(tmp_path: Path) -> None:
    build = ready_build("gcc", "asan-ubsan")

    _, value = run(tmp_path, "--asan", "--build", build.folder, "--", "python", "-c", "pass")

    assert value["sanitized"]["name"] == "AddressSanitizer and UndefinedBehaviorSanitizer"


def test_an_uneventful_run_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    build = ready_build("gcc", "asan-ubsan")

    answer = forensics(
        *("run", "--asan", "--ubsan", "--build", build.folder, "--", "python", "-c", "print(1)"),
        cwd=tmp_path,
        environment={"ASAN_OPTIONS": "", "LD_PRELOAD": ""},
    )

    assert (answer.status, answer.stdout) == (0, "1\n")
    assert "no report (linked into Python)" in answer.stderr
    assert list((tmp_path / ".forensics" / "run").iterdir()) == []


def test_valgrind_sees_what_nobody_rebuilt(tmp_path: Path) -> None:
    compile_module(tmp_path, "gcc", None)

    answer, value = run(
        tmp_path,
        *("--valgrind", "--", sys.executable, "-S", "-c"),
        "import planted; planted.read_after_free()",
        PYTHONPATH=str(tmp_path),
    )

    report = only_report(value)
    assert (answer.status, value["sanitized"]["method"]) == (0, "valgrind")
    assert (report["kind"], report["culprit"]["function"]) == (
        "heap-use-after-free",
        "planted::read_after_free()",
    )
    assert [event["role"] for event in report["chain"]] == ["allocate", "free", "use"]


def test_sampling_sees_a_fault_that_the_c_library_survives(tmp_path: Path) -> None:
    compile_module(tmp_path, "gcc", None)
    code = (
        "import faulthandler, planted\nfaulthandler.enable()\n"
        "def outer():\n  for _ in range(50_000): planted.read_after_free()\nouter()"
    )

    answer, value = run(
        tmp_path,
        *("--sample", "--", sys.executable, "-c", code),
        PYTHONPATH=str(tmp_path),
        SCUDO_OPTIONS="GWP_ASAN_SampleRate=100",
    )

    report = only_report(value)
    assert answer.status == 128 + signal.SIGSEGV
    assert (report["sanitizer"], report["kind"]) == ("GWP-ASan", "use-after-free")
    assert [event["role"] for event in report["chain"]] == ["allocate", "free", "use"]
    assert (python_functions(report)[0], bool(report["core"])) == ("outer", True)
    assert "One in 100 allocations" in value["sanitized"]["notes"][0]


@pytest.mark.parametrize(("option", "words"), [("--valgrind", "apt-get install valgrind")])
def test_a_tool_that_is_missing_is_said_with_its_package(
    tmp_path: Path, option: str, words: str
) -> None:
    answer = forensics(
        *("run", option, "--", sys.executable, "-c", "pass"),
        cwd=tmp_path,
        environment={"PATH": str(tmp_path)},
    )

    assert answer.status == 2
    assert words in answer.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--tsan", "--asan"), "ThreadSanitizer cannot be combined"),
        (("--asan", "--valgrind"), "run once with each"),
        (("--build", "."), "add --asan or --tsan"),
        (("--asan", "--strace"), "leave out --strace"),
        (("--asan", "--build", "nowhere"), "there is no folder nowhere"),
        (("--tsan", "--build", "."), "in others it sees nothing"),
        (("--ubsan", "--build", "."), "forensics build --ubsan"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    answer = forensics("run", *options, "--", "true", cwd=tmp_path)

    assert answer.status == 2
    assert words in answer.stderr
