"""Offsets get names only from the file that ran, and one module's trouble is no other's."""

import os
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.capture.symbolizer import OutputForm, SymbolizerProgram, installed_symbolizers
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.locations import Certainty, CodeOffsets, ResolvedModule

SOURCE = """\
int leaf(int n)
{
  return n / 3;
}
int caller(int n)
{
  return leaf(n) + 1;
}
"""
BUILD_ID = "abcdef0123456789"


def build(folder: Path, *options: str, name: str = "liba.so", source: str = SOURCE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.c").write_text(source, encoding="utf-8")
    identity = f"-Wl,--build-id=0x{BUILD_ID}"
    subprocess.run(
        ["gcc", "-g", "-O0", "-shared", "-fPIC", identity, "-o", name, "a.c", *options],
        cwd=folder,
        check=True,
    )
    return folder / name


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("symbolize"))


@pytest.fixture
def copy(library: Path, tmp_path: Path) -> Path:
    path = tmp_path / "liba.so"
    path.write_bytes(library.read_bytes())
    return path


def parsed(path: Path) -> ModuleFile:
    return parse_module(memoryview(path.read_bytes()))


def start_of(path: Path, function: str) -> int:
    symbol = parsed(path).symbol_named(function)
    assert symbol is not None
    return symbol.address


def question(path: Path | str, *offsets: int, build_id: str | None = BUILD_ID) -> CodeOffsets:
    return CodeOffsets(module=str(path), build_id=build_id, offsets=offsets)


def resolved(answer: Answer[ResolvedModule]) -> ResolvedModule:
    assert isinstance(answer, Known), answer
    return answer.value


def gap(answer: Answer[ResolvedModule]) -> Gap:
    assert isinstance(answer, Gap)
    return answer


def place(module: ResolvedModule, offset: int) -> tuple[str | None, int | None]:
    spot = module.locations[offset][0]
    return spot.function, spot.line


def split(path: Path) -> Path:
    """Move the debug information into a file of its own."""
    debug = path.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", path], check=True)
    return debug


class Given:
    """Files that a user gave."""

    def __init__(self, *, module: Path | None = None, debug: Path | None = None) -> None:
        self.module, self.debug = module, debug

    def module_file(self, build_id: str | None) -> str | None:
        return str(self.module) if self.module and build_id == BUILD_ID else None

    def debug_file(self, build_id: str | None) -> str | None:
        return str(self.debug) if self.debug and build_id == BUILD_ID else None


def wrapped(program: SymbolizerProgram, folder: Path, before: str) -> SymbolizerProgram:
    """A program that does something first."""
    path = folder / "wrapped"
    path.write_text(f'#!/bin/sh\n{before}\nexec {program.path} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return SymbolizerProgram(
        name="wrapped", path=str(path), form=program.form, arguments=program.arguments
    )


def test_the_same_build_is_proof(library: Path) -> None:
    leaf = start_of(library, "leaf")

    module = resolved(Symbolizer().resolve(question(library, leaf)))

    assert module.certainty is Certainty.PROVED
    assert place(module, leaf) == ("leaf", 2)


@pytest.mark.parametrize("printed", ["ABCDEF0123456789", "abcdef01-2345-6789"])
def test_a_build_id_may_be_spelt_otherwise(library: Path, printed: str) -> None:
    leaf = start_of(library, "leaf")

    module = resolved(Symbolizer().resolve(question(library, leaf, build_id=printed)))

    assert module.certainty is Certainty.PROVED


def test_without_a_build_id_it_is_likely(library: Path) -> None:
    leaf = start_of(library, "leaf")

    module = resolved(Symbolizer().resolve(question(library, leaf, build_id=None)))

    assert module.certainty is Certainty.LIKELY


def test_another_build_is_not_used(library: Path) -> None:
    answer = gap(Symbolizer().resolve(question(library, 0x1100, build_id="00" * 8)))

    assert answer.what == f"rebuilt since: BuildId {'00' * 8} in the log, {BUILD_ID} in the file"


def test_a_file_without_calls_where_the_log_has_callers_is_not_used(library: Path) -> None:
    offsets = [start_of(library, "leaf") + at for at in (3, 6)]

    answer = gap(
        Symbolizer().resolve(
            CodeOffsets(
                module=str(library), build_id=None, offsets=tuple(offsets), calls=frozenset(offsets)
            )
        )
    )

    assert answer.what == "rebuilt since: no call stands at 2 of 2 places that called"


def test_what_the_user_gave_stands_in_for_a_missing_or_rebuilt_module(
    library: Path, tmp_path: Path
) -> None:
    leaf = start_of(library, "leaf")
    other = build(tmp_path / "other", "-Wl,--build-id=0x1234")

    for printed in (tmp_path / "missing.so", other):
        module = resolved(Symbolizer(Given(module=library)).resolve(question(printed, leaf)))

        assert module.file == str(library)
        assert place(module, leaf) == ("leaf", 2)


def test_separate_debug_information_is_found(copy: Path) -> None:
    leaf = start_of(copy, "leaf")
    debug = split(copy)
    without = Symbolizer().resolve(question(copy, leaf))

    given = resolved(Symbolizer(Given(debug=debug)).resolve(question(copy, leaf)))
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", copy], check=True)
    linked = resolved(Symbolizer().resolve(question(copy, leaf)))

    assert place(resolved(without), leaf) == ("leaf", None)
    assert place(given, leaf) == ("leaf", 2)
    assert place(linked, leaf) == ("leaf", 2)
    assert linked.file == str(debug)


def test_a_debug_file_whose_checksum_differs_is_not_used(copy: Path) -> None:
    leaf = start_of(copy, "leaf")
    debug = split(copy)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", copy], check=True)
    debug.write_bytes(debug.read_bytes() + b"\0")

    module = resolved(Symbolizer().resolve(question(copy, leaf)))

    assert place(module, leaf) == ("leaf", None)


def test_the_debug_file_alone_is_enough(copy: Path) -> None:
    leaf = start_of(copy, "leaf")
    debug = split(copy)
    copy.unlink()

    module = resolved(Symbolizer(Given(debug=debug)).resolve(question(copy, leaf)))

    assert place(module, leaf) == ("leaf", 2)


def test_the_nearest_symbol_is_no_answer(tmp_path: Path) -> None:
    source = 'asm(".text\\n.globl bare\\nbare: .zero 64, 0x90\\n");\n' + SOURCE
    path = build(tmp_path / "bare", source=source)
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    row = next(row for row in listing.splitlines() if row.endswith(" bare"))
    inside = int(row.split()[0], 16) + 32

    module = resolved(Symbolizer().resolve(question(path, inside)))

    assert module.locations == {}
    assert module.unnamed == {inside: "nothing is known there"}


def test_what_is_no_code_is_not_asked(library: Path) -> None:
    module = resolved(Symbolizer().resolve(question(library, 1, 1 << 63)))

    assert set(module.unnamed.values()) == {"the offset lies outside of its code"}


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    (tmp_path / "text.so").write_text("no ELF", encoding="utf-8")
    symbolizer = Symbolizer()

    what = {
        name: gap(symbolizer.resolve(question(name, 1))).what
        for name in (str(tmp_path / "pipe.so"), "/dev/zero", str(tmp_path), "/nowhere", "a\0b")
    }

    assert what[str(tmp_path / "pipe.so")] == "it is no regular file"
    assert what["/dev/zero"] == "it is no regular file"
    assert what[str(tmp_path)] == "it is no regular file"
    assert what["/nowhere"] == "it is not on this machine"
    assert what["a\0b"] == "it is not on this machine"
    assert "not an ELF" in gap(symbolizer.resolve(question(tmp_path / "text.so", 1))).what


def test_a_thousand_offsets_are_one_process(library: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    program = wrapped(installed_symbolizers()[0], tmp_path, f"echo >> {calls}")
    start = start_of(library, "leaf")

    module = resolved(
        Symbolizer(programs=[program]).resolve(question(library, *range(start, start + 1000)))
    )

    assert calls.read_text(encoding="utf-8") == "\n"
    assert place(module, start) == ("leaf", 2)


def test_a_module_that_kills_the_symbolizer_costs_its_own_names(
    library: Path, tmp_path: Path
) -> None:
    victim = build(tmp_path / "victim", name="libvictim.so")
    died = 'case "$*" in *libvictim*) kill -SEGV $$;; esac'
    program = wrapped(installed_symbolizers()[0], tmp_path, died)
    symbolizer = Symbolizer(programs=[program])
    leaf = start_of(library, "leaf")

    lost = gap(symbolizer.resolve(question(victim, leaf)))
    kept = resolved(symbolizer.resolve(question(library, leaf)))

    assert lost.what == f"wrapped died of signal 11 on {victim}"
    assert place(kept, leaf) == ("leaf", 2)


def test_the_next_symbolizer_is_asked_where_one_died(library: Path, tmp_path: Path) -> None:
    installed = installed_symbolizers()
    symbolizer = Symbolizer(programs=[wrapped(installed[0], tmp_path, "exit 7"), installed[1]])
    leaf = start_of(library, "leaf")

    module = resolved(symbolizer.resolve(question(library, leaf)))

    assert place(module, leaf) == ("leaf", 2)
    assert symbolizer.used == (installed[1].name,)


def test_binutils_alone_is_never_proof(library: Path) -> None:
    binutils = [program for program in installed_symbolizers() if not program.is_exact]
    leaf = start_of(library, "leaf")

    module = resolved(Symbolizer(programs=binutils).resolve(question(library, leaf)))

    assert place(module, leaf) == ("leaf", 2)
    assert module.certainty_of(leaf) is Certainty.LIKELY


def test_without_a_symbolizer_it_says_what_to_install(library: Path) -> None:
    answer = gap(Symbolizer(programs=[]).resolve(question(library, 1)))

    assert answer.what == "no symbolizer is installed"
    assert answer.remedy.startswith("apt-get install llvm")


def test_a_damaged_module_is_bounded(library: Path, tmp_path: Path) -> None:
    data = bytearray(library.read_bytes())
    leaf = start_of(library, "leaf")
    for at in range(0x400, len(data), 97):
        data[at] ^= 0x55
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(data)

    answer = Symbolizer().resolve(question(damaged, leaf, build_id=None))

    assert isinstance(answer, Gap | Known)


def test_lines_and_json_agree(library: Path) -> None:
    leaf = start_of(library, "leaf")
    by_form = {
        program.form: place(
            resolved(Symbolizer(programs=[program]).resolve(question(library, leaf))), leaf
        )
        for program in installed_symbolizers()
    }

    assert by_form == {OutputForm.JSON: ("leaf", 2), OutputForm.LINES: ("leaf", 2)}
