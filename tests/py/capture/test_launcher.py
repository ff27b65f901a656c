"""The launcher: real compilers, and Pythons with a shared library and without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from vllm_forensics.capture import launcher
from vllm_forensics.capture.launcher import LauncherPlan, build_launcher
from vllm_forensics.errors import ToolError, UsageError

pytestmark = pytest.mark.asan

WHO_AM_I = "import sys; print(sys.prefix, sys.executable, sys.version_info[:2])"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without anything in it, in a path with a space."""
    folder = tmp_path_factory.mktemp("with space") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def ask(program: Path, code: str, *before: str) -> str:
    done = subprocess.run(
        [*before, program, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def allocator_statistics(program: Path) -> str:
    """What Python's own allocator says of itself on standard error; nothing where it is unused."""
    command = [str(program), "-c", "import sys; sys._debugmallocstats()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


@pytest.mark.parametrize(
    ("compiler", "flavour"),
    [("g++", "asan-ubsan"), ("clang++", "asan"), ("g++", "tsan"), ("clang++", "tsan")],
)
def test_the_launcher_is_the_python_of_its_environment(
    environment: Path, compiler: str, flavour: str
) -> None:
    target = environment / "bin" / f"python-{compiler}-{flavour}"
    plan = LauncherPlan(
        python=environment / "bin" / "python", flavour=flavour, compiler=compiler, target=target
    )

    program = build_launcher(plan)

    expected = f"{environment} {target} {sys.version_info[:2]}\n"
    assert (program, ask(program, WHO_AM_I)) == (target, expected)


def test_the_launcher_takes_small_objects_from_malloc(environment: Path) -> None:
    plain = environment / "bin" / "python"

    program = build_launcher(LauncherPlan(python=plain, flavour="asan"))

    assert program == environment / "bin" / "python-asan"
    assert "arenas" in allocator_statistics(plain)
    assert "arenas" not in allocator_statistics(program)


def test_a_static_library_serves_where_there_is_no_shared_one(
    environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    static = Path("/usr/bin/python3")
    if not list(Path("/usr/lib").glob("python3*/config-3*/libpython3*.a")):
        pytest.skip("no static libpython here")
    ways = launcher._ways_to_link
    monkeypatch.setattr(
        launcher, "_ways_to_link", lambda facts: [way for way in ways(facts) if "-no-pie" in way]
    )
    plan = LauncherPlan(python=static, flavour="asan", target=tmp_path / "python-asan")

    program = build_launcher(plan)

    assert ask(program, "import math; print(math.floor(2.5))") == "2\n"


def test_a_python_without_headers_is_said_with_the_package_that_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = {"include": "/nowhere", "INCLUDEPY": "/nowhere", "base": "/nowhere", "LDVERSION": "3.11"}
    monkeypatch.setattr(launcher, "_ask", lambda python: bare)
    plan = LauncherPlan(python=Path(sys.executable), flavour="asan", target=tmp_path / "new")

    with pytest.raises(ToolError, match=r"no Python\.h in /nowhere") as raised:
        build_launcher(plan)

    assert "python3-dev" in raised.value.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (LauncherPlan(python=Path(sys.executable), flavour="msan"), "no sanitizers msan"),
        (
            LauncherPlan(python=Path(sys.executable), flavour="asan", compiler="no-such-compiler"),
            "no-such-compiler is not installed",
        ),
    ],
)
def test_a_plan_that_cannot_work_is_refused(plan: LauncherPlan, words: str) -> None:
    with pytest.raises((UsageError, ToolError), match=words):
        build_launcher(plan)
