"""The script that measures the table of faults reads endings and reports rightly."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "fault_table.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fault_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up while it is made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fault_table", module)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("status", "output", "expected"),
    [
        (0, "[       OK ]", "runs clean"),
        (1, "[  FAILED  ]", "exit 1"),
        (-11, "", "SIGSEGV"),
        (None, "", "hangs"),
        # gcc 12.2
        (
            1,
            "SUMMARY: AddressSanitizer: heap-use-after-free (/b/minimal_demo+0x77f5) ",
            "AddressSanitizer: heap-use-after-free",
        ),
        (
            66,
            "SUMMARY: ThreadSanitizer: data race (/b/minimal_demo+0x7)\n",
            "ThreadSanitizer: data race",
        ),
        (
            1,
            "csrc/cache.cpp:97:33: runtime error: member call on null pointer of type 'A'\n",
            "UndefinedBehaviorSanitizer: member call on null pointer",
        ),
        # clang 14
        (
            1,
            "csrc/cache.cpp:79:23: runtime error: division by zero\n"
            "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior csrc/cache.cpp:79:23 in \n",
            "UndefinedBehaviorSanitizer: division by zero",
        ),
    ],
)
def test_an_ending_is_told_in_a_few_words(
    script: ModuleType, status: int | None, output: str, expected: str
) -> None:
    assert script.Outcome(status=status, output=output).describe() == expected


def test_a_cell_names_the_compilers_only_where_they_differ(script: ModuleType) -> None:
    assert script.render_cell({"g++": "SIGSEGV", "clang++": "SIGSEGV"}) == "SIGSEGV"
    assert (
        script.render_cell({"g++": "exit 1", "clang++": "hangs"}) == "g++: exit 1<br>clang++: hangs"
    )


def test_only_what_stands_between_the_markers_is_replaced(script: ModuleType) -> None:
    text = f"before\n{script.BEGIN}\n| old |\n{script.END}\nafter\n"

    head, table, tail = script.split_at_markers(text, Path("README.md"))

    assert table == "| old |"
    assert (head, tail) == (f"before\n{script.BEGIN}", f"{script.END}\nafter\n")


def test_a_file_without_markers_is_named(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"README\.md: put <!-- fault-table:begin -->"):
        script.split_at_markers("no table here", Path("README.md"))


def test_another_version_of_a_compiler_does_not_make_a_table_old(script: ModuleType) -> None:
    rows = "| fault | debug |\n|---|---|\n| `A.B` | SIGSEGV |"

    assert script.rows_of(f"{rows}\n\nMeasured with g++ 12") == script.rows_of(
        f"{rows}\n\nMeasured with g++ 14"
    )
