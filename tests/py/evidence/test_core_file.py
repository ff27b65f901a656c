"""Cores, read lazily: what the notes say, what memory holds, what damage leaves."""

import gc
import struct
import weakref
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.core_builder import (
    AARCH64,
    CoreSpec,
    FileEntry,
    LoadSegment,
    R,
    W,
    X,
    build_core,
    file_table,
    siginfo,
)
from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_file import CoreImage, ModuleSource
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Architecture, Module, Signal

LIBRARY = b"/opt/libsample.so"
BASE = 0x7F00_0000_0000
STACK = 0x7000_0000


def no_files(module: Module) -> Answer[ModuleFile]:
    return Gap(what=f"{module.path} is not here")


def image_of(
    spec: CoreSpec | None = None, source: ModuleSource = no_files, cut: int | None = None
) -> CoreImage:
    return CoreImage(memoryview(build_core(spec)[:cut]), source)


def mapped_library(library: SampleLibrary, path: bytes = LIBRARY) -> tuple[CoreSpec, ModuleSource]:
    """A core in which the library is mapped, only its first page dumped; and the file to it."""
    raw = library.whole.read_bytes()
    file = library.parse()
    loads = [s for s in file.segments if s.type == 1]
    rows, segments = [], []
    for load in loads:
        start = BASE + (load.address & -4096)
        end = BASE + -(-(load.address + load.memory_size) // 4096) * 4096
        rows.append(FileEntry(start=start, end=end, pages=(load.offset & -4096) // 4096, path=path))
        held = raw[:4096] if load.offset == 0 else b""
        if load.flags & W:
            held = raw[load.offset & -4096 :][: end - start].ljust(end - start, b"\0")
        segments.append(
            LoadSegment(address=start, contents=held, flags=load.flags, memory_size=end - start)
        )
    stack = LoadSegment(address=STACK, contents=bytes(4096))
    pc = BASE + library.addresses["helper"] + 1

    def source(module: Module) -> Answer[ModuleFile]:
        return Known(value=file) if module.path == path.decode() else Gap(what="no such file")

    spec = CoreSpec(
        threads=((42, {"rip": pc, "rsp": STACK + 0x100}),),
        files=rows,
        segments=(stack, *segments),
        auxv={6: 4096, 3: BASE + 64},
    )
    return spec, source


def value_of(answer: Answer[bytes]) -> bytes:
    assert isinstance(answer, Known)
    return answer.value


def test_who_died_of_what_is_in_the_notes() -> None:
    image = image_of()

    assert (image.process.pid, image.process.command) == (42, "/opt/app/engine --serve")
    assert image.signal == Known(value=Signal(number=11, code=1, address=0x48))
    assert image.process.page_size == 4096


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (b"x" * 78 + b" ", "x" * 78),  # all of it: the last space was its NUL
        (b"x" * 79, "x" * 79 + "…"),
        (b"x" * 80, "x" * 80 + "…"),
        (b"x" * 70, "x" * 70),
    ],
    ids=["all", "cut", "filled", "short"],
)
def test_a_command_that_the_kernel_cut_is_said_to_go_on(arguments: bytes, command: str) -> None:
    assert image_of(CoreSpec(arguments=arguments)).process.command == command


def test_the_crashing_thread_is_the_first() -> None:
    spec = CoreSpec(threads=((43, {"rip": 1, "rsp": 2}), (42, {"rip": 3, "rsp": 4, "rax": 5})))

    first, second = image_of(spec).threads

    assert (first.tid, first.crashed, first.pc, first.sp) == (43, True, 1, 2)
    assert (second.tid, second.crashed, second.registers["rax"]) == (42, False, 5)
    assert (first.name, second.name) == (None, "engine")


def test_without_siginfo_the_threads_own_signal_is_told() -> None:
    image = image_of(CoreSpec(signal=None, current_signal=6))

    assert image.signal == Known(value=Signal(number=6, code=0, is_recorded=False))


def test_the_sender_of_a_signal_is_kept() -> None:
    image = image_of(CoreSpec(signal=siginfo(6, -6, sender=42)))

    assert image.signal == Known(value=Signal(number=6, code=-6, sender_pid=42))


def test_a_core_of_aarch64_has_its_own_registers() -> None:
    thread = (42, {"pc": 0x40_1000, "sp": STACK, "x0": 7, "x30": 9})

    image = image_of(CoreSpec(machine=AARCH64, threads=(thread,)))

    assert image.process.architecture is Architecture.AARCH64
    assert (image.threads[0].pc, image.threads[0].sp) == (0x40_1000, STACK)
    assert image.threads[0].registers["x30"] == 9
    assert image.signal_frames(image.threads[0]) == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CoreSpec(type=2), "not a core dump"),
        (CoreSpec(machine=258), r"another architecture \(loongarch, 64-bit, little-endian\)"),
        (CoreSpec(threads=()), "without a single thread"),
    ],
)
def test_what_is_no_core_is_refused_with_a_remedy(spec: CoreSpec, message: str) -> None:
    with pytest.raises(EvidenceError, match=message) as caught:
        image_of(spec)

    assert caught.value.remedy


def test_memory_is_read_across_two_segments() -> None:
    low = LoadSegment(address=0x1000, contents=b"ab")
    high = LoadSegment(address=0x1002, contents=b"cd")
    image = image_of(CoreSpec(segments=(high, low)))

    assert image.read(0x1001, 2) == Known(value=b"bc")
    assert isinstance(image.read(0x1001, 4), Gap)


def test_what_is_not_mapped_is_a_gap_that_says_so() -> None:
    answer = image_of().read(0x10, 8)

    assert isinstance(answer, Gap)
    assert answer.what == "nothing is mapped at 0x10"


def test_memory_that_the_filter_left_out_names_the_filter() -> None:
    image = image_of(CoreSpec(segments=(LoadSegment(address=0x1000, memory_size=0x1000),)))

    answer = image.read(0x1000, 8)

    assert isinstance(answer, Gap)
    assert "coredump_filter" in answer.remedy


def test_a_truncated_core_says_what_is_missing() -> None:
    whole = build_core()
    image = image_of(cut=len(whole) - 1024)

    answer = image.read(STACK + 3500, 8)

    assert image.is_truncated
    assert (image.truncated_at, image.expected_size) == (len(whole) - 1024, len(whole))
    assert isinstance(answer, Gap)
    assert "truncated" in answer.what
    assert isinstance(image.read(STACK, 8), Known)


def test_a_whole_core_is_not_truncated() -> None:
    assert not image_of().is_truncated


def test_cut_anywhere_it_is_refused_or_answers() -> None:
    whole = build_core()

    for size in range(len(whole)):
        try:
            image = CoreImage(memoryview(whole[:size]), no_files)
        except EvidenceError:
            continue
        ask_everything(image)


def test_more_segments_than_the_header_can_count() -> None:
    spec = CoreSpec(extended_numbering=True)

    assert len(image_of(spec).mappings) == 1


def test_a_module_is_known_by_its_first_page(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)

    (module,) = image_of(spec, source).modules

    assert (module.path, module.start, module.bias) == (LIBRARY.decode(), BASE, BASE)
    assert (module.build_id, module.deleted) == ("abcdef0123", False)


def test_a_deleted_file_is_marked(library: SampleLibrary) -> None:
    spec, source = mapped_library(library, LIBRARY + b" (deleted)")

    image = image_of(spec, source)

    assert [(m.path, m.deleted) for m in image.modules] == [(LIBRARY.decode(), True)]
    assert all(m.deleted for m in image.mappings if m.path)


def test_a_path_that_is_no_utf_8_is_kept(library: SampleLibrary) -> None:
    spec, source = mapped_library(library, b"/opt/caf\xe9.so")

    assert image_of(spec, source).modules[0].path == "/opt/caf\udce9.so"


def test_a_data_file_is_no_module() -> None:
    data = LoadSegment(address=BASE, contents=b"weights!" * 512, flags=R)
    entry = FileEntry(start=BASE, end=BASE + 4096, pages=0, path=b"/data/w.bin")

    image = image_of(CoreSpec(segments=(data,), files=(entry,)))

    assert image.modules == ()
    assert image.mappings[0].path == "/data/w.bin"


def test_without_its_first_page_a_module_has_no_identity() -> None:
    code = LoadSegment(address=BASE, contents=b"", flags=R | X, memory_size=4096)
    entry = FileEntry(start=BASE, end=BASE + 4096, pages=0, path=b"/opt/lib.so")

    image = image_of(CoreSpec(segments=(code,), files=(entry,)))

    assert [(m.path, m.build_id) for m in image.modules] == [("/opt/lib.so", None)]


def test_the_program_is_the_module_that_holds_its_headers(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)

    assert image_of(spec, source).process.program == LIBRARY.decode()


def test_code_that_was_not_dumped_comes_from_the_file(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    start = library.addresses["helper"]

    code = value_of(image_of(spec, source).read(BASE + start, 8))

    assert code == library.parse().read(start, 8)


def test_the_file_never_stands_in_for_memory_that_was_written_to(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    emptied = tuple(replace(s, contents=b"") if s.flags & W else s for s in spec.segments)
    image = image_of(replace(spec, segments=emptied), source)

    assert isinstance(image.read(BASE + library.addresses["counter"], 4), Gap)


def test_another_build_on_disk_gives_no_bytes(library: SampleLibrary) -> None:
    spec, _ = mapped_library(library)

    answer = image_of(spec).read(BASE + library.addresses["helper"], 8)

    assert answer == Gap(what=f"{LIBRARY.decode()} is not here")


def test_mappings_that_gdb_left_out_of_its_core_are_added(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    kept = tuple(s for s in spec.segments if s.contents)
    image = image_of(replace(spec, segments=kept), source)

    mapping = image.mapping_at(BASE + library.addresses["helper"])

    assert isinstance(mapping, Known)
    assert (mapping.value.executable, mapping.value.writable) == (True, False)


def test_the_frame_of_the_notes_has_module_offset_and_symbol(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    image = image_of(spec, source)

    stack = image.unwind(image.threads[0])

    assert isinstance(stack, Known)
    (frame,) = stack.value.frames
    assert (frame.function, frame.module_offset) == ("helper", library.addresses["helper"] + 1)
    assert (frame.names_trusted, stack.value.truncated) == (True, True)


def test_a_frame_in_another_build_has_no_name(library: SampleLibrary) -> None:
    spec, _ = mapped_library(library)
    image = image_of(spec)

    frame = image.frame_at(0, image.threads[0].pc)

    assert (frame.function, frame.module, frame.names_trusted) == (None, LIBRARY.decode(), False)


def test_a_plt_stub_is_named_by_what_it_imports(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    image = image_of(spec, source)
    plt = next(s for s in library.parse().sections if s.name == ".plt")

    names = [
        symbol.value.name
        for at in range(plt.address + 16, plt.address + plt.size, 16)
        if isinstance(symbol := image.symbol_at(BASE + at), Known)
    ]

    assert "strlen@plt" in names


def test_symbols_are_moved_to_where_the_module_lies(library: SampleLibrary) -> None:
    spec, source = mapped_library(library)
    image = image_of(spec, source)

    symbol = image.symbol_named(image.modules[0], "counter")

    assert isinstance(symbol, Known)
    assert symbol.value.address == BASE + library.addresses["counter"]
    assert isinstance(image.symbol_named(image.modules[0], "nothing"), Gap)


def test_the_stack_is_words_from_the_stack_pointer_on() -> None:
    image = image_of()

    answer = image.stack_words(image.threads[0])

    assert isinstance(answer, Known)
    assert answer.value.start == STACK + 0x100
    assert answer.value.words[0] == int.from_bytes(bytes(range(8)), "little")
    assert len(answer.value.words) == (4096 - 0x100) // 8


def test_a_stack_pointer_in_no_mapping_is_a_gap() -> None:
    image = image_of(CoreSpec(threads=((42, {"rip": 1, "rsp": 16}),)))

    assert isinstance(image.stack_words(image.threads[0]), Gap)


def test_text_is_found_in_writable_memory_only() -> None:
    text = b"x" * 3000 + b"ERROR: AddressSanitizer: it" + b"y" * 3000
    constant = LoadSegment(address=0x1000, contents=text, flags=R)
    heap = replace(constant, flags=R | W)

    assert isinstance(image_of(CoreSpec(segments=(constant,))).find_text(b"Sanitizer: "), Gap)
    found = value_of(image_of(CoreSpec(segments=(heap,))).find_text(b"Sanitizer: "))
    assert b"ERROR: AddressSanitizer: it" in found
    assert len(found) <= 1024


@pytest.mark.parametrize("count", [0, 2, 1 << 18, 1 << 40, (1 << 64) - 1])
def test_a_file_table_that_lies_about_its_length_is_bounded(count: int) -> None:
    entry = FileEntry(start=BASE, end=BASE + 4096, pages=0, path=b"/a")

    image = image_of(CoreSpec(file_note=file_table((entry,), count)))

    assert len(image.modules) <= 1


def test_a_file_table_whose_entries_are_upside_down_is_passed_over() -> None:
    entry = FileEntry(start=BASE + 4096, end=BASE, pages=0, path=b"/a")

    assert image_of(CoreSpec(files=(entry,))).modules == ()


@pytest.mark.parametrize("size", [0, 1, 12, 33, 111, 120, 279])
def test_a_short_note_is_passed_over(size: int) -> None:
    good = build_core()
    at = good.index(struct.pack("<III", 5, 336, 1))
    cut = good[: at + 4] + struct.pack("<I", size) + good[at + 8 :]

    with pytest.raises(EvidenceError):
        CoreImage(memoryview(cut[:2048]), no_files)


def test_a_short_note_keeps_the_registers_that_it_holds() -> None:
    good = build_core()
    at = good.index(struct.pack("<III", 5, 336, 1))
    cut = good[: at + 4] + struct.pack("<I", 280) + good[at + 8 :]

    image = CoreImage(memoryview(cut[:2048]), no_files)

    assert list(image.threads[0].registers)[-1] == "rsp"
    assert image.threads[0].pc == 0x40_1000


def test_lines_and_variables_are_for_gdb() -> None:
    image = image_of()

    assert isinstance(image.lines(1), Gap)
    assert isinstance(image.variable(image.frame_at(0, 1), "x"), Gap)


def test_names_are_demangled() -> None:
    assert image_of().demangle("_ZN4vllm5Block4dataEv") == Known(value="vllm::Block::data")
    assert isinstance(image_of().demangle("main"), Gap)


def ask_everything(image: CoreImage) -> None:
    for thread in image.threads:
        image.unwind(thread)
        image.signal_frames(thread)
        image.stack_words(thread)
        image.instructions(thread.pc)
    for module in image.modules:
        image.symbol_named(module, "main")
    for address in (0, 0x48, STACK, BASE, (1 << 64) - 1):
        image.read(address, 16)
        image.symbol_at(address)
        image.mapping_at(address)
    image.find_text(b"ERROR")
    assert image.mappings is not None


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_core_is_refused_or_answers(library: SampleLibrary, data: st.DataObject) -> None:
    spec, source = mapped_library(library)
    raw = bytearray(build_core(spec))
    headers = 64 + 56 * (1 + len(spec.segments))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, headers + 1500))
        value = data.draw(st.binary(min_size=1, max_size=8))
        raw[at : at + len(value)] = value

    try:
        image = CoreImage(memoryview(raw), source)
    except EvidenceError:
        return
    ask_everything(image)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=400), st.sampled_from([62, 183]))
def test_random_notes_are_refused_or_answer(noise: bytes, machine: int) -> None:
    head = build_core(CoreSpec(machine=machine))[: 64 + 112]

    try:
        image = CoreImage(memoryview(head + noise), no_files)
    except EvidenceError:
        return
    ask_everything(image)


def test_an_image_is_gone_with_its_last_user_and_waits_for_no_garbage_collection() -> None:
    gc.disable()
    try:
        image = image_of()
        image.read(STACK, 8)
        gone = weakref.ref(image)

        del image

        assert gone() is None
    finally:
        gc.enable()
