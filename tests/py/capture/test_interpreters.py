"""Which Python a command starts."""

import sys
from pathlib import Path

import pytest

from vllm_forensics.capture.interpreters import PythonCommand, python_command


def script(folder: Path, *lines: str) -> str:
    path = folder / "tool"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_is_known_by_its_name() -> None:
    found = python_command([sys.executable, "-m", "pytest", "-q"])

    assert found == PythonCommand(python=sys.executable, arguments=("-m", "pytest", "-q"))


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (("#!{python}",), ()),
        (("#!{python} -I",), ("-I",)),
        (("#!/usr/bin/env python3",), ()),
        (("#!/usr/bin/env -S python3 -I",), ("-I",)),
        (("#!/bin/sh", '\'\'\'exec\' "{python}" "$0" "$@"', "' '''"), ()),
    ],
)
def test_a_script_is_known_by_its_first_lines(
    tmp_path: Path, lines: tuple[str, ...], options: tuple[str, ...]
) -> None:
    # A first line cannot name a path with a space; pip writes a script of the shell there.
    python = tmp_path / ("a venv" if lines[0] == "#!/bin/sh" else "venv") / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    path = script(tmp_path, *(line.format(python=python) for line in lines))

    found = python_command([path, "one"])

    assert found is not None
    assert Path(found.python).name.startswith("python")
    assert (found.arguments, found.script) == ((*options, path, "one"), path)


@pytest.mark.parametrize(
    "lines", [("#!/bin/sh", "python3 x.py"), ("#!",), ("",), ("#!/usr/bin/env",), ("\x7fELF",)]
)
def test_other_programs_are_not_taken_for_python(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert python_command([script(tmp_path, *lines)]) is None


def test_a_program_that_is_not_there_is_no_python() -> None:
    assert python_command(["no-such-python"]) is None
