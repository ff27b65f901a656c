"""What a file's own bytes prove: real compilers, every way in which a proof may fail."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.dwarf_units import compile_units
from vllm_forensics.evidence.instrumentation import kind_of, prove
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.model.build import FileKind, Flavour, FramePointers, Proof, Sanitizer, Verdict

pytestmark = pytest.mark.asan

SOURCE = """\
#include <string.h>
int at(const char* text, int index) {
  char copy[64];
  strcpy(copy, text);
  return copy[index] * index;
}
#ifdef PROGRAM
int main(int argc, char** argv) { return at(argv[0], argc); }
#endif
"""
ASAN = Flavour(sanitizers=(Sanitizer.ADDRESS,))
BOTH = Flavour(sanitizers=(Sanitizer.ADDRESS, Sanitizer.UNDEFINED))
UBSAN = Flavour(sanitizers=(Sanitizer.UNDEFINED,))
TSAN = Flavour(sanitizers=(Sanitizer.THREAD,))
HARDENED = Flavour(hardened=True)
KEPT = "-fno-omit-frame-pointer"

Compile = Callable[..., bytes]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile the source above into a library, or whatever the options say."""

    def run(compiler: str, *options: str, source: str = SOURCE) -> bytes:
        (tmp_path / "at.c").write_text(source)
        subprocess.run([compiler, "at.c", "-o", "out", "-fPIC", *options], cwd=tmp_path, check=True)
        return (tmp_path / "out").read_bytes()

    return run


def proof(data: bytes, flavour: Flavour) -> Proof:
    return prove(parse_module(memoryview(data)), flavour)


@pytest.mark.parametrize("dwarf", ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gz"])
def test_gcc_records_the_flags_of_every_unit(compiled: Compile, dwarf: str) -> None:
    data = compiled("gcc", "-shared", "-g", dwarf, "-O1", "-fsanitize=address", KEPT)

    [unit] = compile_units(parse_module(memoryview(data)))
    found = proof(data, ASAN)

    assert (unit.name, unit.producer[:5]) == ("at.c", "GNU C")
    assert (found.verdict, found.units) == (Verdict.PROVED, 1)
    assert found.frame_pointers is FramePointers.KEPT
    assert found.runtimes == ("libasan.so.8",) or found.runtimes[0].startswith("libasan.so.")


@pytest.mark.parametrize(
    ("options", "flavour"),
    [
        ("-fsanitize=address -shared-libsan", ASAN),
        ("-fsanitize=address,undefined -shared-libsan", BOTH),
        ("-fsanitize=undefined -shared-libsan", UBSAN),
        ("-fsanitize=thread", TSAN),
    ],
)
def test_clang_with_recorded_flags_is_proved(
    compiled: Compile, options: str, flavour: Flavour
) -> None:
    recorded = "-grecord-command-line"

    found = proof(compiled("clang", "-shared", "-g1", recorded, KEPT, *options.split()), flavour)

    assert (found.verdict, found.problems) == (Verdict.PROVED, ())
    assert found.sanitizers == flavour.sanitizers
    assert found.frame_pointers is FramePointers.KEPT


def test_clang_without_recorded_flags_is_proved_by_its_symbols(compiled: Compile) -> None:
    found = proof(compiled("clang", "-shared", "-g", "-fsanitize=address", "-shared-libsan"), ASAN)

    assert (found.verdict, found.frame_pointers) == (Verdict.PROVED, FramePointers.UNKNOWN)
    assert "does not record its flags" in found.notes[0]


@pytest.mark.parametrize(
    ("compiler", "options", "says"),
    [
        ("gcc", "-shared -g", "no __asan_init"),
        ("gcc", "-shared -g -fsanitize=undefined", "no __asan_init"),
        ("gcc", "-shared -fsanitize=address", "no debug information"),
        ("gcc", "-shared -g -fsanitize=address -s", "no debug information"),
        ("clang", "-shared -g -fsanitize=address", "no sanitizer runtime in DT_NEEDED"),
        (
            "gcc",
            "-shared -g -fsanitize=address -Wl,--no-as-needed -ltsan",
            "more than one sanitizer runtime: libasan.so",
        ),
    ],
)
def test_a_library_that_came_out_plain_has_its_problem_named(
    compiled: Compile, compiler: str, options: str, says: str
) -> None:
    found = proof(compiled(compiler, *options.split()), ASAN)

    assert found.verdict is Verdict.PLAIN
    assert any(says in problem for problem in found.problems), found.problems


def test_a_runtime_inside_a_module_is_a_problem_and_inside_a_program_is_none(
    compiled: Compile,
) -> None:
    runtime = SOURCE + "void __asan_init(void) {}\n"

    module = proof(compiled("gcc", "-shared", "-g", source=runtime), ASAN)
    program = proof(
        compiled("clang", "-DPROGRAM", "-g", "-grecord-command-line", "-fsanitize=address", KEPT),
        ASAN,
    )

    assert any("inside itself" in problem for problem in module.problems), module
    assert (program.verdict, program.problems, program.runtimes) == (Verdict.PROVED, (), ())


def test_a_program_that_only_links_the_runtime_is_plain(compiled: Compile, tmp_path: Path) -> None:
    compiled("clang", "-c", "-g", "-grecord-command-line", "-DPROGRAM")
    (tmp_path / "out").rename(tmp_path / "at.o")
    subprocess.run(["clang", "-fsanitize=address", "at.o", "-o", "it"], cwd=tmp_path, check=True)

    found = proof((tmp_path / "it").read_bytes(), ASAN)

    assert found.verdict is Verdict.PLAIN
    assert found.sanitizers == ()


def test_code_with_nothing_to_check_is_proved_by_its_flags(compiled: Compile) -> None:
    empty = "int nothing(void) { return 3; }\n"

    found = proof(
        compiled("gcc", "-shared", "-g", KEPT, "-fsanitize=undefined", source=empty), UBSAN
    )
    plain = proof(compiled("gcc", "-shared", "-g", KEPT, source=empty), UBSAN)

    assert (found.verdict, found.sanitizers) == (Verdict.PROVED, ())
    assert "nothing for UndefinedBehaviorSanitizer" in found.notes[0]
    assert plain.verdict is Verdict.PLAIN


def test_omitted_frame_pointers_are_told(compiled: Compile) -> None:
    found = proof(compiled("gcc", "-shared", "-g", "-O2", "-fsanitize=address"), ASAN)

    assert (found.verdict, found.frame_pointers) == (Verdict.PARTLY, FramePointers.OMITTED)


def test_link_time_optimisation_is_told(compiled: Compile) -> None:
    options = ("-shared", "-g", "-O1", KEPT, "-fsanitize=address", "-flto")

    found = proof(compiled("gcc", *options), ASAN)

    assert "link time" in " ".join(found.notes)


def test_hardening_is_proved_and_its_lack_named(compiled: Compile) -> None:
    options = ("-shared", "-g", "-O2", "-fstack-protector-strong", "-fcf-protection")
    fortify = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3")

    found = proof(compiled("gcc", *options, *fortify), HARDENED)
    plain = proof(compiled("gcc", "-shared", "-g", "-O2", "-fno-stack-protector"), HARDENED)

    assert found.verdict is Verdict.PROVED
    assert found.hardening == ("stack-protector", "fortify", "control-flow")
    assert plain.verdict is Verdict.PLAIN


def test_kinds_are_told_apart(compiled: Compile) -> None:
    module = "void* PyInit_it(void) { return 0; }\n"
    kinds = [
        kind_of(parse_module(memoryview(data)))
        for data in (
            compiled("gcc", "-DPROGRAM", "-pie"),
            compiled("gcc", "-DPROGRAM", "-no-pie"),
            compiled("gcc", "-shared"),
            compiled("gcc", "-shared", source=module),
        )
    ]

    assert kinds == [FileKind.PROGRAM, FileKind.PROGRAM, FileKind.LIBRARY, FileKind.MODULE]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "at.c").write_text(SOURCE)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-g", "-fsanitize=address", "at.c", "-o", "out"],
        cwd=folder,
        check=True,
    )
    return (folder / "out").read_bytes()


@settings(max_examples=300, deadline=None)
@given(where=st.floats(0, 1, exclude_max=True), damage=st.binary(min_size=1, max_size=16))
def test_damage_gives_a_proof_or_a_reason_and_nothing_else(
    whole: bytes, where: float, damage: bytes
) -> None:
    at = int(where * len(whole))
    data = whole[:at] + damage + whole[at + len(damage) :]

    try:
        found = proof(data, ASAN)
    except EvidenceError:
        return
    assert isinstance(found, Proof)


def test_damaged_debug_sections_end_the_walk(whole: bytes) -> None:
    module = parse_module(memoryview(whole))
    for name in (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str"):
        section = next(one for one in module.sections if one.name == name)
        for fill in (0x00, 0x7F, 0xFF, 0x80):
            data = bytearray(whole)
            data[section.offset : section.offset + section.size] = bytes([fill]) * section.size

            units = list(compile_units(parse_module(memoryview(bytes(data)))))

            assert len(units) <= 1
