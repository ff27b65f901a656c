"""The set-up behind ./dev: what is left half-made is noticed, and what is missing is said."""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "setup_environment.sh"
PIP_THAT_IS_INTERRUPTED = """#!/bin/sh
# It says that it was cancelled and ends with 1, as pip does.
case "$*" in *pip*) trap 'echo cancelled; exit 1' INT; touch started; sleep 60 & wait ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (folder / ".venv" / "made-for").write_text(f"{folder}\n")
    (folder / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    (folder / "dev").touch()
    return folder


def script(text: str, checkout: Path) -> list[str | Path]:
    return ["bash", "-c", f'set -euo pipefail; cd "$1"; . "$2"; {text}', "x", checkout, SCRIPT]


def run(text: str, checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(script(text, checkout), capture_output=True, text=True, check=False)


def install(checkout: Path, *, record: str | None) -> Path:
    """What pip writes for a package of one file; its RECORD comes last."""
    (packages,) = (checkout / ".venv" / "lib").glob("python3*/site-packages")
    (packages / "half.py").write_text("x = 1\n")
    about = packages / "half-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    if record is not None:
        (about / "RECORD").write_text(record)
    return packages / "half.py"


@pytest.mark.parametrize(
    ("record", "is_whole"),
    [
        ("half.py,,6\nhalf-1.0.dist-info/RECORD,,\n", True),
        (None, False),
        ("half.py,,600\n", False),
        ("half.py,,6\ngone.py,,6\n", False),
    ],
    ids=["whole", "no RECORD yet", "a file cut off", "a file missing"],
)
def test_after_an_interrupted_pip_each_package_is_looked_at(
    record: str | None, is_whole: bool, checkout: Path
) -> None:
    install(checkout, record=record)
    (checkout / ".venv" / "incomplete").touch()

    assert (run("venv_is_whole", checkout).returncode == 0) is is_whole


def test_an_environment_that_moved_is_made_anew(checkout: Path) -> None:
    assert run("venv_is_whole", checkout).returncode == 0

    moved = checkout.rename(checkout.with_name("elsewhere"))

    assert run("venv_is_whole", moved).returncode != 0


def test_a_pip_that_fails_is_explained_and_looked_after(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "bin" / "python").symlink_to("/bin/false")

    done = run("pip_install 'the packages' --group build; echo went on", checkout)

    assert done.returncode == 2
    assert "pip could not install the packages" in done.stderr
    assert "run ./dev again" in done.stderr
    assert done.stdout == ""
    assert (checkout / ".venv" / "incomplete").exists()


def test_ctrl_c_ends_the_set_up_whatever_pip_answers(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text(PIP_THAT_IS_INTERRUPTED)
    python.chmod(0o755)
    text = "set_up_system() { :; }; set_up_venv() { :; }; set_up build; echo went on"
    with subprocess.Popen(
        script(text, checkout),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        while not (checkout / "started").exists():
            assert started.poll() is None, started.stderr
            time.sleep(0.01)
        os.killpg(started.pid, signal.SIGINT)
        out, err = started.communicate()

    assert started.returncode == 130
    assert "dev: interrupted" in err
    assert "could not" not in err
    assert out == "cancelled\n"
    assert (checkout / ".venv" / "incomplete").exists()


def test_what_python_is_there_is_said_where_none_will_do(checkout: Path) -> None:
    done = run(
        "find_python() { return 1; }; venv_is_whole() { return 1; }; "
        "python3() { echo Python 3.6.9; }; "
        'install_packages() { echo "apt: $*"; }; set_up_system build; echo went on',
        checkout,
    )

    assert done.returncode == 2
    assert "no Python from 3.11 to 3.14" in done.stderr
    assert "(python3 is Python 3.6.9)" in done.stderr
    assert "installed, and yet" in done.stderr
    assert "venv" in done.stdout
    assert "went on" not in done.stdout


def test_each_command_installs_the_tool_that_it_calls() -> None:
    root = SCRIPT.parents[1]
    groups = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]

    def tools(group: str) -> set[str]:
        own = {re.split(r"[^\w-]", line)[0] for line in groups[group] if isinstance(line, str)}
        included = (line["include-group"] for line in groups[group] if isinstance(line, dict))
        return own.union(*map(tools, included))

    arms = re.findall(
        r"^    set_up (.*)\n((?:    .*\n)*)", (root / "dev").read_text(), re.MULTILINE
    )
    called = [
        (tool, names.split())
        for names, lines in arms
        for tool in re.findall(r"^    (?:exec )?(nox|pytest)\b", lines, re.MULTILINE)
    ]

    assert len(arms) >= 8
    assert len(called) >= 7
    for tool, names in called:
        assert tool in set().union(*map(tools, names)), f"{tool} is in none of {names}"
