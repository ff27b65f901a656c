"""`forensics asan --why A B`: one bug or two, and by which parts."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result
from tests.py.evidence.sanitizer.exam import SAMPLES
from tests.py.support.snapshots import too_wide

from vllm_forensics.cli.commands.asan import command
from vllm_forensics.errors import UsageError

RAW = SAMPLES / "raw"
ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.why.1.json").read_text(encoding="utf-8"))
GCC, CLANG, MANY, LEAKS = (
    str(RAW / name)
    for name in (
        "asan_gcc_heap_uaf_read.txt",
        "asan_clang_scary.txt",
        "asan_gcc_multi_recover.txt",
        "lsan_gcc_leaks.txt",
    )
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def why(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = run("--format", "json", "--why", *arguments)
    answer = json.loads(result.output)
    jsonschema.validate(answer, SCHEMA)
    return result.exit_code, answer


def differing(answer: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(part["part"], part["a"], part["b"]) for part in answer["parts"] if not part["agrees"]]


def test_two_compilers_reports_of_one_bug_are_one() -> None:
    status, answer = why(GCC, CLANG)

    assert status == 0
    assert answer["same"]
    assert differing(answer) == []
    dropped = {part["part"] for part in answer["dropped"]}
    assert {"process", "address", "line in Cache::lookup"} <= dropped
    assert answer["a"]["signature"] == answer["b"]["signature"]


def test_the_part_that_differs_is_named() -> None:
    status, answer = why(GCC, f"{MANY}:1")

    assert status == 1
    assert differing(answer) == [("use frame 3", "main", "multi_recover")]
    assert "use frame 3: main in the first, multi_recover in the second" in answer["explanation"]


def test_a_report_is_named_by_its_number_or_its_first_line() -> None:
    _, by_number = why(f"{MANY}:2", f"{MANY}:3")
    line = by_number["a"]["line"]

    status, by_line = why(f"{MANY}:{line}", f"{MANY}:2")

    assert status == 0
    assert by_line["a"]["number"] == by_line["b"]["number"] == 2
    assert ("kind", "heap-buffer-overflow", "global-buffer-overflow") in differing(by_number)


def test_spelling_and_lines_are_shown_and_do_not_count(tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    text = Path(GCC).read_text(encoding="utf-8")
    other.write_text(
        text.replace("Cache::lookup(int)", "Cache::lookup(int) [clone .isra.0]").replace(
            "asan_cases.cpp:25", "asan_cases.cpp:27"
        ),
        encoding="utf-8",
    )

    status, answer = why(GCC, str(other))

    assert status == 0
    assert [(part["part"], part["b"]) for part in answer["dropped"]] == [
        ("line in Cache::lookup", "src/asan_cases.cpp:27"),
        ("spelling of Cache::lookup", "Cache::lookup(int) [clone .isra.0]"),
    ]


def test_signatures_alone_say_only_whether() -> None:
    _, answer = why(GCC, f"{MANY}:1")
    one, two = answer["a"]["signature"], answer["b"]["signature"]

    assert why(one, one)[0] == 0
    status, alone = why(one, two)

    assert status == 1
    assert [part["part"] for part in alone["parts"]] == ["version", "kind", "name", "hash"]
    assert "name the logs too" in alone["explanation"]


def test_signatures_are_looked_up_in_the_logs() -> None:
    _, answer = why(GCC, f"{MANY}:1")
    one, two = answer["a"]["signature"], answer["b"]["signature"]

    _, found = why(one, two, GCC, MANY)

    assert differing(found) == [("use frame 3", "main", "multi_recover")]
    assert (found["a"]["log"], found["b"]["log"]) == (GCC, MANY)


def test_a_leak_is_found_by_its_own_signature() -> None:
    result = run("--format", "json", LEAKS)
    leaks = json.loads(result.output)["reports"][0]["leaks"]
    names = list(dict.fromkeys(leak["signature"] for leak in leaks))

    _, found = why(names[0], names[1], LEAKS)

    ((part, one, other),) = differing(found)
    assert part == "leak"
    assert {one, other} == {"lose_buf < leaks < main", "make_tree < lose_tree < leaks"}


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (f"{MANY}:99999", "no report 99999"),
        (str(RAW / "negative_app_log.txt"), "holds no sanitizer report"),
        (str(RAW / "not there"), "cannot be opened"),
    ],
)
def test_what_cannot_be_found_is_said(one: str, said: str) -> None:
    result = run("--why", one, GCC)

    assert isinstance(result.exception, UsageError)
    assert said in result.exception.message


def test_other_versions_are_not_compared() -> None:
    status, answer = why("v1:segv:f:0123456789ab", "v2:segv:f:0123456789ab")

    assert status == 1
    assert "different versions" in answer["explanation"]


def test_the_text_tells_both_sides() -> None:
    result = run("--why", GCC, f"{MANY}:1")

    assert result.exit_code == 1
    assert result.output.startswith("two bugs")
    assert "≠  use frame 3     main" in result.output
    assert "report 1 of 4," in " ".join(result.output.split())
    assert not too_wide(result.output, 80)


def test_what_is_own_here_does_not_change_a_signature() -> None:
    signatures = {
        json.loads(run("--format", "json", *own, GCC).output)["reports"][0]["signature"]
        for own in ((), ("--own", "elsewhere"), ("--own", "asan_cases.cpp"))
    }

    assert len(signatures) == 1
