"""The wheel stands alone: a clean environment, no checkout, no compiler on PATH."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("wheel")  # build it once

CHECKOUT = Path(__file__).parents[3]


def run(
    *command: str | Path, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end; with `path` as the only folder on PATH, none of the checkout's .venv."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    if path is not None:
        environment["PATH"] = str(path)
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def run_or_fail(*command: str | Path, cwd: Path) -> None:
    finished = run(*command, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-build-isolation", "--no-deps", "--wheel-dir", folder)
    run_or_fail(sys.executable, "-m", "pip", "wheel", *options, CHECKOUT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    folder = wheel.parent / "clean"
    run_or_fail(sys.executable, "-m", "venv", folder, cwd=wheel.parent)
    run_or_fail(folder / "bin" / "python", "-m", "pip", "install", wheel, cwd=wheel.parent)
    return folder


@pytest.fixture
def only_gdb(tmp_path: Path) -> Path:
    """A folder for PATH that holds gdb and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    gdb = shutil.which("gdb")
    assert gdb is not None
    (folder / "gdb").symlink_to(gdb)
    return folder


def test_the_wheel_holds_what_a_user_needs_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names}
    assert tops == {"vllm_forensics", f"vllm_forensics-{wheel.name.split('-')[1]}.dist-info"}
    assert any(name.startswith("vllm_forensics/_native.") for name in names)
    assert "vllm_forensics/py.typed" in names
    assert not [name for name in names if name.endswith(("_test.cpp", ".o", ".a", ".pyc"))]


def test_the_wheel_brings_what_a_run_under_a_sanitizer_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    needed = {
        "vllm_forensics/bin/forensics-python-stack.so",
        "vllm_forensics/bin/forensics-sampling.so",
        "vllm_forensics/specimen/csrc/launcher/launcher.cpp",
        "vllm_forensics/specimen/csrc/launcher/python_stack.cpp",
        "vllm_forensics/specimen/csrc/launcher/python_stack.h",
    }
    assert needed <= set(names)


def test_the_native_module_keeps_its_debug_information(environment: Path, tmp_path: Path) -> None:
    (module,) = environment.glob("lib/python3.*/site-packages/vllm_forensics/_native.*.so")

    sections = run("readelf", "--section-headers", "--wide", module, cwd=tmp_path)

    assert ".debug_info" in sections.stdout
    assert ".symtab" in sections.stdout


def test_help_needs_no_checkout(environment: Path, tmp_path: Path, only_gdb: Path) -> None:
    finished = run(environment / "bin" / "forensics", "--help", cwd=tmp_path, path=only_gdb)

    assert finished.returncode == 0, finished.stderr
    assert "core" in finished.stdout


def test_a_file_that_is_no_core_is_an_answer_not_a_traceback(
    environment: Path, tmp_path: Path, only_gdb: Path
) -> None:
    (tmp_path / "notes.txt").write_text("not a core\n")

    finished = run(
        environment / "bin" / "forensics", "core", "notes.txt", cwd=tmp_path, path=only_gdb
    )

    assert finished.returncode == 2, finished.stderr
    assert "notes.txt" in finished.stdout + finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr


def test_a_real_core_is_explained(environment: Path, tmp_path: Path, only_gdb: Path) -> None:
    python = environment / "bin" / "python"
    crash = "import ctypes; ctypes.string_at(0x48)"
    run_or_fail(
        *("gdb", "-nx", "-batch", "-ex", "run", "-ex", f"generate-core-file {tmp_path}/crash"),
        *("--args", python, "-c", crash),
        cwd=tmp_path,
    )

    finished = run(environment / "bin" / "forensics", "core", "crash", cwd=tmp_path, path=only_gdb)

    assert finished.returncode == 1, finished.stderr
    assert "SIGSEGV" in finished.stdout
    assert "0x48" in finished.stdout
