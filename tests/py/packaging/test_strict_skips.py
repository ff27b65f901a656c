"""The hook in conftest.py, tried on a small test folder of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = {
    "test_one.py": """
import pytest
def test_listed():
    pytest.skip("known")
def test_unlisted():
    pytest.skip("no compiler")
@pytest.mark.skip(reason="marked")
def test_marked():
    pass
@pytest.mark.xfail(reason="a known defect")
def test_expected_failure():
    raise AssertionError
def test_passes():
    pass
""",
    "test_module.py": """
import pytest
pytest.importorskip("no_such_module")
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "allowed_skips.txt").write_text(
        "# a comment\ntest_one.py::test_list*  # one kernel a machine\n"
    )
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run_pytest(folder: Path, *options: str, ci: str = "") -> str:
    environment = {**os.environ, "CI": ci}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--rootdir=.",
            "-c",
            os.devnull,
            *options,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return finished.stdout.splitlines()[-1]


def test_skips_are_skips_outside_ci(folder: Path) -> None:
    closing = run_pytest(folder, "--continue-on-collection-errors")

    assert "1 passed, 4 skipped, 1 xfailed" in closing


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_unlisted_skip_fails_in_ci(folder: Path, workers: str) -> None:
    closing = run_pytest(folder, "--numprocesses", workers, "test_one.py", ci="true")

    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in closing


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_module_that_skips_itself_fails_too(folder: Path, workers: str) -> None:
    closing = run_pytest(folder, "--numprocesses", workers, "--strict-skips", "test_module.py")

    assert "1 error" in closing
