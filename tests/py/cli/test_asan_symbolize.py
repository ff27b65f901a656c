"""`forensics asan --symbolize`: what it prints, in JSON and in text, and what it refuses."""

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from vllm_forensics.cli.commands.asan import command
from vllm_forensics.errors import UsageError
from vllm_forensics.evidence.modules import parse_module

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.asan.1.json").read_text(encoding="utf-8"))
BUILD_ID = "abcdef0123456789"


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exit_code == 1, result.output
    return result.output


def run_json(*arguments: str | Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run("--format", "json", *arguments))
    jsonschema.validate(answer, SCHEMA)
    return answer


@pytest.fixture
def library(tmp_path: Path) -> Path:
    source = tmp_path / "engine.c"
    source.write_text("int step(int n)\n{\n  return n / 3;\n}\n", encoding="utf-8")
    path = tmp_path / "libengine.so"
    identity = f"-Wl,--build-id=0x{BUILD_ID}"
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", identity, source, "-o", path], check=True)
    return path


def log_of(library: Path, build_id: str | None = BUILD_ID) -> Path:
    """A report of a use in `step`."""
    symbol = parse_module(memoryview(library.read_bytes())).symbol_named("step")
    assert symbol is not None
    printed = f" (BuildId: {build_id})" if build_id else ""
    log = library.with_suffix(".log")
    log.write_text(
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x7f00 "
        "bp 0x1 sp 0x2\nREAD of size 4 at 0x602000000010 thread T0\n"
        f"    #0 0x7f0000001000  ({library}+0x{symbol.address:x}){printed}\n"
        "    #1 0x7f0000002000  (<unknown module>)\n\n"
        f"SUMMARY: AddressSanitizer: heap-use-after-free ({library}+0x{symbol.address:x})\n",
        encoding="utf-8",
    )
    return log


def test_names_are_marked_in_json(library: Path) -> None:
    log = log_of(library)

    bare, answer = run_json(log), run_json("--symbolize", log)

    assert bare["symbolization"] is None
    assert bare["reports"][0]["chain"][0]["frames"][0]["symbolized"] is None
    report = answer["reports"][0]
    first = report["chain"][0]["frames"][0]
    assert (first["function"], first["line"], first["symbolized"]) == ("step", 2, "proved")
    assert report["culprit"]["function"] == "step"
    assert report["signature"] != bare["reports"][0]["signature"]
    outcome = answer["symbolization"]
    assert (outcome["asked"], outcome["proved"], outcome["likely"]) == (2, 1, 0)
    assert [left["module"] for left in outcome["left"]] == [None]


def test_without_a_build_id_text_says_that_it_is_likely(library: Path) -> None:
    text = run("--symbolize", log_of(library, None))

    assert "engine.c:2 (likely)" in text
    assert "1 of 2 frames named from files here: 1 likely" in text
    assert "Names and lines are likely, not proved" in " ".join(text.split())


def test_a_rebuilt_module_is_said_to_be_so(library: Path) -> None:
    text = run("--symbolize", log_of(library, "00" * 20))

    said = "".join(text.split())
    assert f"rebuiltsince:BuildId{'00' * 20}inthelog,{BUILD_ID}inthefile(1frameleft)" in said
    assert "step" not in text


def test_what_to_do_is_said_once(library: Path) -> None:
    log = log_of(library)
    text = log.read_text(encoding="utf-8").replace("(<unknown module>)", "(/nowhere/b.so+0x10)")
    log.write_text(text, encoding="utf-8")
    library.unlink()

    shown = " ".join(run("--symbolize", log).split())

    assert shown.count("it is not on this machine") == 2
    assert shown.count("--symbols DIR") == 1


def test_a_folder_of_the_users_stands_in(library: Path, tmp_path: Path) -> None:
    log = log_of(library)
    kept = tmp_path / "kept" / ".build-id" / BUILD_ID[:2]
    kept.mkdir(parents=True)
    library.rename(kept / f"{BUILD_ID[2:]}.debug")

    gone = run_json("--symbolize", log)
    answer = run_json("--symbolize", "--symbols", tmp_path / "kept", log)

    assert gone["symbolization"]["proved"] == 0
    assert answer["symbolization"]["proved"] == 1
    assert answer["reports"][0]["culprit"]["function"] == "step"


def test_a_place_alone_is_refused(library: Path) -> None:
    result = CliRunner().invoke(command, ["--symbols", str(library.parent), str(log_of(library))])

    assert isinstance(result.exception, UsageError)
    assert "--symbolize" in result.exception.remedy
