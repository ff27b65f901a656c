"""A publisher splits a wheel; a user's core of it gets its lines back."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.crashes import leave_core
from tests.py.integration.tool import REPOSITORY, Json, forensics, forensics_core
from tests.py.support.wheels import EXTENSION, FALLING_LINE, build_wheel

pytestmark = pytest.mark.gdb


@dataclass(frozen=True, kw_only=True)
class Published:
    whole: Path
    """The wheel as it was built."""
    stripped: Path
    symbols: Path
    core: Path
    """Of the stripped wheel, installed."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("published")
    whole = build_wheel(folder / "source")
    output = folder / "stripped"
    split = forensics("symbols", "split", "--format", "json", "--output", output, whole)
    assert split.status == 0, split.stderr
    answer = split.report
    schema = json.loads((REPOSITORY / "docs/schemas/forensics.symbols.1.json").read_text("utf-8"))
    jsonschema.validate(answer, schema)
    stripped, symbols = Path(answer["split"]["wheel"]), Path(answer["split"]["archive"])
    site = folder / "site"
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, *install, str(stripped)], check=True)
    core = leave_core(
        [sys.executable, "-c", "import planted._ext as e; e.fall()"],
        folder / "run",
        environment={"PYTHONPATH": str(site)},
    )
    return Published(whole=whole, stripped=stripped, symbols=symbols, core=core)


def crash_of(published: Published, *options: str | Path) -> Json:
    answer = forensics_core(*options, published.core)
    assert answer.status == 1, answer.stderr
    return answer.crash


def test_without_symbols_the_function_has_a_name_and_no_line(published: Published) -> None:
    crash = crash_of(published)

    assert crash["culprit"]["function"] == "planted::fall"
    assert crash["culprit"]["line"] is None
    assert any("--symbols" in gap["remedy"] or "-g" in gap["remedy"] for gap in crash["gaps"])


@pytest.mark.parametrize("form", ["symbols", "whole", "folder"])
def test_with_symbols_it_has_its_line(published: Published, form: str, tmp_path: Path) -> None:
    places = {"symbols": published.symbols, "whole": published.whole, "folder": tmp_path}
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(published.symbols), str(tmp_path)], check=True
    )

    crash = crash_of(published, "--symbols", places[form])

    assert crash["culprit"]["line"] == FALLING_LINE
    assert crash["culprit"]["file"].endswith("ext.cpp")
    assert crash["gaps"] == []
    [by_hand] = [step for step in crash["next_steps"] if "--gdb" in step]
    assert f"--symbols {places[form]}" in by_hand
    [module] = [module for module in crash["modules"] if "_ext" in module["path"]]
    assert module["debug_info"]
    assert module["matches_core"]


def test_another_builds_symbols_are_not_used(published: Published, tmp_path: Path) -> None:
    other = build_wheel(tmp_path, "\n\n" + EXTENSION.replace("= 1;", "= 2;"))

    crash = crash_of(published, "--symbols", other)

    assert crash["culprit"]["line"] is None
    assert any("--symbols has none of its build" in gap["remedy"] for gap in crash["gaps"])


def test_the_wheel_stands_in_where_it_is_not_installed(published: Published) -> None:
    installed = next((published.core.parent.parent / "site" / "planted").glob("*.so"))
    away = installed.with_suffix(".away")
    installed.rename(away)
    try:
        bare = crash_of(published)
        helped = crash_of(
            published, "--symbols", published.stripped, "--symbols", published.symbols
        )
    finally:
        away.rename(installed)

    assert bare["culprit"] is None or bare["culprit"]["line"] is None
    assert helped["culprit"]["line"] == FALLING_LINE


def test_nothing_unpacked_stays_behind(published: Published, tmp_path: Path) -> None:
    answer = forensics(
        "core", "--symbols", published.symbols, published.core,
        environment={"TMPDIR": str(tmp_path)},
    )  # fmt: skip

    assert answer.status == 1
    assert list(tmp_path.iterdir()) == []


def test_gdb_by_hand_has_the_lines_too(published: Published, tmp_path: Path) -> None:
    answer = forensics(
        "core", "--gdb", "--symbols", published.symbols, published.core,
        environment={"TMPDIR": str(tmp_path), "HOME": os.devnull},
    )  # fmt: skip

    assert f"ext.cpp:{FALLING_LINE}" in answer.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_list_says_what_has_lines(published: Published) -> None:
    both = forensics("symbols", "list", published.symbols, published.stripped)
    bare = forensics("symbols", "list", "--format", "json", published.stripped)

    assert both.status == 0
    assert "    lines " in both.stdout
    assert "names, no lines" in both.stdout
    assert both.stdout.count("planted/_ext") == 2
    assert bare.status == 1
    assert [file["lines"] for file in bare.report["files"]] == [False]


def test_places_that_cannot_be_used_end_with_2_and_a_remedy(
    published: Published, tmp_path: Path
) -> None:
    (tmp_path / "bad.zip").write_bytes(published.symbols.read_bytes()[:3000])

    for place in (tmp_path / "missing", tmp_path / "bad.zip", published.core.parent.parent):
        answer = forensics("core", "--symbols", place, tmp_path / "missing-core")
        assert answer.status == 2
        assert answer.stderr.strip() or answer.stdout.strip()
