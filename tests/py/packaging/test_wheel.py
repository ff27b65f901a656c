"""The wheel stands alone: a clean environment, no checkout, no compiler on PATH."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.py.support.namespaces import need_own_mounts

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
    """With the libraries that it needs: what `./dev wheel` makes."""
    folder = tmp_path_factory.mktemp("wheel")
    run_or_fail(sys.executable, CHECKOUT / "scripts" / "build_wheel.py", folder, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    folder = wheel.parent / "clean"
    run_or_fail(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    run_or_fail(folder / "bin" / "python", "-m", "pip", "install", wheel, cwd=folder.parent)
    return folder


@pytest.fixture(scope="module")
def core(environment: Path) -> Path:
    """Of a Python that died in a call through ctypes."""
    path = environment / "crash"
    python = environment / "bin" / "python"
    run_or_fail(
        *("gdb", "-nx", "-batch", "-ex", "run", "-ex", f"generate-core-file {path}"),
        *("--args", python, "-c", "import ctypes; ctypes.string_at(0x48)"),
        cwd=environment,
    )
    return path


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
    version = wheel.name.split("-")[1]
    assert tops == {
        "vllm_forensics",
        "vllm_forensics.libs",
        f"vllm_forensics-{version}.dist-info",
    }
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


def test_a_real_core_is_explained(environment: Path, core: Path, only_gdb: Path) -> None:
    finished = run(environment / "bin" / "forensics", "core", core, cwd=environment, path=only_gdb)

    assert finished.returncode == 1, finished.stderr
    assert "SIGSEGV" in finished.stdout
    assert "0x48" in finished.stdout


# The libraries that it brings.


def test_the_unwinder_uses_the_libraries_of_the_wheel(environment: Path, tmp_path: Path) -> None:
    (module,) = environment.glob("lib/python3.*/site-packages/vllm_forensics/_unwind.*.so")

    told = run("ldd", module, cwd=tmp_path).stdout

    used = [line for line in told.splitlines() if "libdw" in line or "libelf" in line]
    assert len(used) == 2
    assert all("vllm_forensics.libs/" in line for line in used)


def test_stacks_are_found_on_a_machine_without_libdw(
    environment: Path, core: Path, tmp_path: Path
) -> None:
    need_own_mounts()
    known = run("/sbin/ldconfig", "-p", cwd=tmp_path).stdout
    paths = [
        line.rpartition(" => ")[2]
        for line in known.splitlines()
        if line.strip().startswith(("libdw.so.1 ", "libelf.so.1 ", "libdw.so ", "libelf.so "))
    ]
    assert paths
    hide = "; ".join(f"mount --bind /dev/null $(readlink -f {path})" for path in set(paths))
    command = f"{environment}/bin/forensics core --format json --depth stack --no-store {core}"

    hidden = run("unshare", "--mount", "sh", "-ec", f"{hide}; {command}", cwd=tmp_path)
    broken = run("unshare", "--mount", "sh", "-c", f"{hide}; eu-stack --version", cwd=tmp_path)

    assert broken.returncode != 0
    [crash] = json.loads(hidden.stdout)["crashes"]
    frames = crash["threads"][0]["frames"]
    assert len(frames) > 5
    assert "libdw" in {frame["tier"] for frame in frames}
    assert not [gap for gap in crash["gaps"] if "libdw" in gap["what"]]


def test_every_library_in_the_wheel_is_named_with_its_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    [listing] = [name for name in names if name.endswith("licenses/BUNDLED.md")]
    metadata = archive.read(listing.partition("/")[0] + "/METADATA").decode()

    text = archive.read(listing).decode()

    bundled = [name.rpartition("/")[2] for name in names if ".libs/lib" in name]
    assert {name.partition("-")[0] for name in bundled} >= {"libdw", "libelf"}
    assert all(f"| {name} |" in text for name in bundled)
    assert "LGPL-3.0-or-later" in metadata
    told = [line.partition(": ")[2] for line in metadata.splitlines() if "License-File" in line]
    folder = listing.rpartition("/")[0]
    assert {f"{folder}/{name}" for name in told} <= set(names)
