"""The compiler's stand-in: what it takes out, what it appends, what it leaves behind."""

import os
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.capture.foreign_build.toolchain import find_compiler
from vllm_forensics.capture.foreign_build.wrappers import Wrappers, write_wrappers
from vllm_forensics.evidence.compiler_calls import parse_compiler_calls
from vllm_forensics.model.build import Compiler, Flavour, Sanitizer

ASAN = Flavour(sanitizers=(Sanitizer.ADDRESS,))
SHOW = """\
#!/bin/sh
printf '<%s>' "$@"
case "$*" in *broken*) echo no good >&2; exit 3 ;; esac
"""


@pytest.fixture
def wrappers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrappers:
    """Stand-ins, in a folder with a space, for a compiler that prints how it was called."""
    show = tmp_path / "show me"
    show.write_text(SHOW)
    show.chmod(0o755)
    compiler = Compiler(family="gcc", c=str(show), cxx=str(show), version="1")
    monkeypatch.setenv("PATH", "/nowhere")  # no ccache
    folder = tmp_path / "the trace"
    return write_wrappers(folder, compiler, ASAN, renamed={str(tmp_path): "/home/me"})


def call(wrappers: Wrappers, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [wrappers.folder / wrappers.cc, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (("-O3", "-c", "a.c"), "<-O3><-c><a.c>"),
        (("-s", "-flto=auto", "-fomit-frame-pointer", "-Werror=all", "-Wall"), "<-Wall>"),
        (("-fno-sanitize=all", "-static-libasan", "x.o"), "<x.o>"),
        (("-Wl,-O1,-s,--as-needed", "-Wl,--strip-all"), "<-Wl,-O1,--as-needed>"),
        (("-Wl,-soname,lib.so", "-Wl,-z,now"), "<-Wl,-soname,lib.so><-Wl,-z,now>"),
        (('-DNAME="a b"', "-DSTAR=*", ""), '<-DNAME="a b"><-DSTAR=*><>'),
        (("-o", "a.c", "../b.c"), "<-o><a.c><../b.c>"),
    ],
)
def test_what_would_undo_the_flavour_is_taken_out(
    wrappers: Wrappers, tmp_path: Path, given: tuple[str, ...], passed: str
) -> None:
    done = call(wrappers, *given, cwd=tmp_path)

    assert done.stdout.startswith(f"{passed}<-fno-omit-frame-pointer>")
    assert done.stdout.endswith(f"<-fsanitize=address><-ffile-prefix-map={tmp_path}=/home/me>")


def test_a_source_is_named_from_where_it_can_be_found(wrappers: Wrappers, tmp_path: Path) -> None:
    (tmp_path / "a.c").touch()

    done = call(wrappers, "-c", "./a.c", "-o", "a.c", cwd=tmp_path)

    assert done.stdout.startswith(f"<-c><{tmp_path}/a.c><-o><a.c>")


@pytest.mark.parametrize("folder", ["b/CMakeFiles/CMakeScratch/TryCompile-1", "b/meson-private"])
def test_questions_about_the_compiler_are_passed_on_untouched(
    wrappers: Wrappers, tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)

    done = call(wrappers, "-s", "probe.c", cwd=tmp_path / folder)

    assert done.stdout == "<-s><probe.c>"
    assert list(wrappers.calls.iterdir()) == []


def test_calls_and_failures_are_kept(wrappers: Wrappers, tmp_path: Path) -> None:
    good = call(wrappers, "-c", "a b.c", "-o", "a.o", cwd=tmp_path)
    bad = call(wrappers, "broken.c", cwd=tmp_path)

    calls = parse_compiler_calls(path.read_bytes() for path in wrappers.calls.iterdir())
    assert (good.returncode, bad.returncode, bad.stderr) == (0, 3, "no good\n")
    assert {one.folder for one in calls} == {str(tmp_path)}
    assert {one.output for one in calls} == {"a.o", None}
    assert ("forensics-show me", "-c", "a b.c", "-o", "a.o") in {one.arguments for one in calls}
    assert [path.read_text() for path in wrappers.failures.iterdir()] == ["no good\n"]


def test_strip_takes_nothing_away(wrappers: Wrappers, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("all")

    done = subprocess.run([wrappers.folder / "strip", tmp_path / "kept"], check=False)

    assert (done.returncode, (tmp_path / "kept").read_text()) == (0, "all")


@pytest.mark.asan
@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_a_compiler_is_found_with_its_runtime(family: str) -> None:
    found = find_compiler(family, ASAN)

    assert found.family == family
    assert found.version[0].isdigit()
    [runtime] = found.runtimes
    assert Path(runtime).is_file()
