"""An explanation is keyed on facts: with every symbol renamed, the demos fail for the same reason.

The specimen's sources are copied and each identifier that is not the language's or a system
header's gets a meaningless name: namespaces, classes, functions, members, enumerators, macros, the
tests themselves. Both programs are built alike and crash alike; then both reports are compared.
"""

import itertools
import re
import signal
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.py.integration.crashes import leave_core
from tests.py.integration.tool import REPOSITORY, Json, triage_in_process
from tests.py.integration.victim_cases import run_tool

pytestmark = pytest.mark.gdb

SOURCES = (
    *("arena", "block_allocator", "cache", "cpu_worker", "event_log"),
    *("minimal_demo", "demo_harness", "demo_main"),
)
# Those that die of a signal in this build, wherever their memory happens to lie.
DEADLY = {
    "NullDereference.ResetThenCopy": signal.SIGSEGV,
    "DoubleFree.BorrowedBytesAdopted": signal.SIGABRT,
    "UncaughtException.CopyOutOfRange": signal.SIGABRT,
    "StackOverflow.EvictionAllocates": signal.SIGSEGV,
    "DivideByZero.NoHeadsOnThisRank": signal.SIGFPE,
    "Abort.FreedTwiceFailsTheCheck": signal.SIGABRT,
}
FOR_PYTHON = {"bindings.cpp", "python_caller.h", "unwinder_bindings.cpp"}
# Contextual keywords, attributes, directives; a system header need not use them.
LANGUAGE = re.findall(
    r"\w+",
    """
    alignas alignof asm auto bool break case catch char class const constexpr continue decltype
    default delete do double else enum explicit extern false final float for friend goto if inline
    int long mutable namespace new noexcept nodiscard nullptr operator override private protected
    public reinterpret_cast return short signed sizeof static static_assert static_cast struct
    switch template this throw true try typedef typename union unsigned using virtual void volatile
    wchar_t while maybe_unused fallthrough define defined elif endif error ifdef ifndef include
    pragma undef main
    """,
)
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/               # comments
    |^[ \t]*\#[ \t]*include[^\n]*       # names of files
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |\d[\w.']*                          # numbers, with their suffixes
    |[A-Za-z_]\w*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NEW_NAME = re.compile(r"zq[a-z]{3}")  # also within a name that a macro pasted together


@dataclass(frozen=True, slots=True, kw_only=True)
class Demos:
    """The two programs, and the new name of each old one."""

    original: Path
    renamed: Path
    names: dict[str, str]

    def restore(self, text: str) -> str:
        """The text as the original program would have made it."""
        old = {new: name for name, new in self.names.items()}
        return NEW_NAME.sub(lambda match: old.get(match.group(), match.group()), text)


def new_names() -> Iterator[str]:
    for letters in itertools.product(string.ascii_lowercase, repeat=3):
        yield f"zq{''.join(letters)}"


def identifiers(text: str) -> Iterator[str]:
    for match in TOKEN.finditer(text):
        if IDENTIFIER.fullmatch(match.group()):
            yield match.group()


def foreign_names(texts: list[str], folder: Path) -> frozenset[str]:
    """What the system headers that these sources include say, and the compiler's own macros."""
    included = sorted({name for text in texts for name in re.findall(r"#\s*include (<.+?>)", text)})
    probe = folder / "probe.cpp"
    probe.write_text("".join(f"#include {name}\n" for name in included), encoding="utf-8")
    said = run_tool(("g++", "-std=c++17", "-E", "-P", str(probe)))
    macros = run_tool(("g++", "-std=c++17", "-E", "-dM", str(probe)))
    defined = re.findall(r"^#define (\w+)", macros, re.MULTILINE)
    return frozenset(IDENTIFIER.findall(said)) | {*defined, *LANGUAGE}


def rename_token(match: re.Match[str], names: dict[str, str]) -> str:
    text = match.group()
    return names.get(text, text)


def build(sources: Path, target: Path) -> None:
    flags = ("-std=c++17", "-O0", "-g", "-pthread", f"-fmacro-prefix-map={sources}/=csrc/")
    files = [str(sources / f"{name}.cpp") for name in SOURCES]
    run_tool(("g++", *flags, *files, "-o", str(target)))


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Demos:
    folder = tmp_path_factory.mktemp("renamed")
    files = sorted([*REPOSITORY.glob("csrc/*.cpp"), *REPOSITORY.glob("csrc/*.h")])
    files = [path for path in files if path.name not in FOR_PYTHON]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    foreign = foreign_names(list(texts.values()), folder)
    own = dict.fromkeys(name for text in texts.values() for name in identifiers(text))
    own = {name: None for name in own if name not in foreign and not name.startswith("_")}
    names = dict(zip(own, new_names(), strict=False))
    for kind in ("original", "renamed"):
        (folder / kind).mkdir()
    for name, text in texts.items():
        (folder / "original" / name).write_text(text, encoding="utf-8")
        changed = TOKEN.sub(lambda match: rename_token(match, names), text)
        (folder / "renamed" / name).write_text(changed, encoding="utf-8")
    programs = {kind: folder / kind / "demo" for kind in ("original", "renamed")}
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(build, (folder / "original", folder / "renamed"), programs.values()))
    return Demos(original=programs["original"], renamed=programs["renamed"], names=names)


def crash_of(program: Path, demo: str, dies_of: signal.Signals, folder: Path) -> Json:
    core = leave_core([program, f"--gtest_filter={demo}"], folder, dies_of=dies_of)
    [crash] = triage_in_process(core)["crashes"]
    assert isinstance(crash, dict)
    return crash


def cycle_of(crash: Json) -> set[str]:
    """The functions of the recursion, in no order: the overflow may be anywhere in it."""
    thread = crash["threads"][0]
    first, period = thread["recursion"]["first_index"], thread["recursion"]["period"]
    return {str(frame["function"]) for frame in thread["frames"][first : first + period]}


def address_class(address: str | None) -> str:
    """Unknown, the null page, or elsewhere: what does not depend on where things were mapped."""
    if address is None:
        return "unknown"
    return address if int(address, 16) < 0x10000 else "elsewhere"


def normalised(text: str) -> str:
    """Without what differs from run to run: numbers, and the folder of the program."""
    text = re.sub(r"\S*/(original|renamed)/", "", text)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)


def test_the_new_names_leave_little_of_the_old(demos: Demos) -> None:
    symbols = run_tool(("nm", "-C", "--defined-only", str(demos.renamed)))
    own = [line for line in symbols.splitlines() if demos.names["vllm"] in line]

    assert len(demos.names) > 200
    assert len(own) > 50
    for name in ("vllm", "PagedKVCache", "copy_blocks", "BlockAllocator", "get_block", "Block"):
        assert not re.search(rf"\b{name}\b", symbols), name


@pytest.mark.parametrize("demo", DEADLY)
def test_a_renamed_demo_fails_for_the_same_reason(demos: Demos, tmp_path: Path, demo: str) -> None:
    renamed_demo = ".".join(demos.names[part] for part in demo.split("."))

    old = crash_of(demos.original, demo, DEADLY[demo], tmp_path / "original")
    new = crash_of(demos.renamed, renamed_demo, DEADLY[demo], tmp_path / "renamed")

    def same(told: str | None) -> str:
        return normalised(demos.restore(str(told)))

    assert new["fault"]["kind"] == old["fault"]["kind"]
    assert new["fault"]["access"] == old["fault"]["access"]
    assert address_class(new["fault"]["address"]) == address_class(old["fault"]["address"])
    assert new["signal"]["code"] == old["signal"]["code"]
    assert [same(line) for line in new["proof"]] == [normalised(line) for line in old["proof"]]
    assert same(new["fault"]["message"]) == normalised(str(old["fault"]["message"]))
    assert new["culprit"]["function"] != old["culprit"]["function"]
    if old["fault"]["kind"] == "stack-overflow":
        # Which call finds the stack at its end depends on where the stack began.
        assert {demos.restore(name) for name in cycle_of(new)} == cycle_of(old)
        return
    assert new["fault"]["size"] == old["fault"]["size"]
    assert demos.restore(new["culprit"]["function"]) == old["culprit"]["function"]
    assert new["culprit"]["line"] == old["culprit"]["line"]
    assert [same(step["what"]) for step in new["origin"]] == [
        normalised(step["what"]) for step in old["origin"]
    ]
    assert same(new["explanation"]) == normalised(old["explanation"])
