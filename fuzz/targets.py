"""One function a parser of evidence: no bytes may make it raise but on purpose, hang, or grow.

    python fuzz/targets.py NAME [libFuzzer's options and corpus folders]

`./dev fuzz` calls it for each name.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
from collections.abc import Callable
from importlib import machinery
from typing import Any

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.answer import Answer, Gap
from vllm_forensics.model.process import Module

Target = Callable[[bytes], object]


def sanitizer() -> Target:
    """Sanitizer logs, cut into two pieces by the first two bytes; a frame by itself."""
    scan = importlib.import_module("vllm_forensics.evidence.sanitizer.scan")
    frames = importlib.import_module("vllm_forensics.evidence.sanitizer.frames")

    def one(data: bytes) -> None:
        scan.parse_sanitizer_log(_pieces(data))
        frames.parse_frame("#0 " + data[:2000].decode("utf-8", "replace").strip())

    return one


def incident_log() -> Target:
    """Any log of a death, cut into two pieces; what is concluded from it, and what is joined."""
    scan = importlib.import_module("vllm_forensics.evidence.log.scan")
    incident = importlib.import_module("vllm_forensics.diagnosis.incident.explain")
    statement = importlib.import_module("vllm_forensics.diagnosis.joined.statement")
    joined = importlib.import_module("vllm_forensics.diagnosis.joined.explain")
    source_kind = importlib.import_module("vllm_forensics.evidence.source_kind")

    def one(data: bytes) -> None:
        reading = scan.parse_incident_log(_pieces(data))
        incident.explain_incidents(reading, "log")
        joined.join(list(statement.of_log("log", None, reading)), {"log": reading})
        source_kind.kind_of(data[2:])

    return one


def core_file() -> Target:
    """Core dumps: their notes at once, then what a triage asks of the image."""
    module = importlib.import_module("vllm_forensics.evidence.core_file")

    def no_file(_: Module) -> Answer[Any]:
        return Gap(what="there is no file")

    def one(data: bytes) -> None:
        image = module.CoreImage(data, no_file)
        for thread in itertools.islice(image.threads, 4):
            image.unwind(thread)
            image.signal_frames(thread)
            image.stack_words(thread)
            image.read(thread.pc, 64)
        image.find_text(b"terminate called")
        _ = (image.mappings, image.modules, image.signal, image.process)

    return one


def strace() -> Target:
    """What strace wrote."""
    module = importlib.import_module("vllm_forensics.evidence.strace")
    return lambda data: module.parse_strace_log(_text(data))


def supervisor_log() -> Target:
    """The JSON lines of the supervisor."""
    module = importlib.import_module("vllm_forensics.evidence.supervisor_log")
    return lambda data: module.parse_supervisor_log(_text(data))


def journal() -> Target:
    """What journalctl and coredumpctl print of a crash."""
    records = importlib.import_module("vllm_forensics.evidence.journal_records")
    people = importlib.import_module("vllm_forensics.evidence.coredumpctl_output")
    crash = importlib.import_module("vllm_forensics.evidence.journal_crash")

    def one(data: bytes) -> None:
        told = (
            *records.parse_journal_export(memoryview(data)),
            *people.parse_coredumpctl(_text(data)),
            {"COREDUMP_PID": "1", "MESSAGE": _text(data), "COREDUMP_CGROUP": _text(data)},
        )
        for fields in told:
            crash.journal_crash(fields)

    return one


def other_dump() -> Target:
    """Dumps that are no ELF core."""
    module = importlib.import_module("vllm_forensics.evidence.other_dumps")
    return lambda data: module.other_dump(memoryview(data))


def signal_frames() -> Target:
    """A stretch of stack of each machine but x86-64; the first byte chooses."""
    module = importlib.import_module("vllm_forensics.evidence.other_signal_frames")
    machines = list(importlib.import_module("vllm_forensics.model.process").Architecture)

    def one(data: bytes) -> None:
        machine = machines[data[0] % len(machines)] if data else machines[0]
        module.other_frames_in(machine, data[1:], 0x7FFD_0000_0000)

    return one


def gdb_mi() -> Target:
    """GDB/MI records, and every reading of a result."""
    module = importlib.import_module("vllm_forensics.evidence.gdb_mi")

    def one(data: bytes) -> None:
        result = module.parse_records(_text(data).splitlines())
        module.parse_thread_ids(result)
        module.parse_frames(result)
        module.parse_variables(result)
        module.parse_line(result)

    return one


def sandbox_recording() -> Target:
    """A run that was written down; it is compared with itself, and drawn."""
    reader = importlib.import_module("vllm_forensics.sandbox.recording_reader")
    compare = importlib.import_module("vllm_forensics.sandbox.compare")
    clean = importlib.import_module("vllm_forensics.render.clean")
    picture = importlib.import_module("vllm_forensics.render.sandbox_picture")

    def one(data: bytes) -> None:
        first, _, second = data.partition(b"\n\n")
        runs = [reader.parse_recording(part.splitlines(), "run") for part in (first, second)]
        picture.render_picture(clean.clean(compare.compare(*runs)), html=True)

    return one


def scheduler_log() -> Target:
    """What a vLLM's own log says of its scheduler, made into something to drive."""
    module = importlib.import_module("vllm_forensics.evidence.scheduler_log")
    replay = importlib.import_module("vllm_forensics.sandbox.log_replay")

    def one(data: bytes) -> None:
        log = module.parse_scheduler_log(_text(data).splitlines())
        replay.recording_of_log(log, "log", replay.Assumed())

    return one


def module_file() -> Target:
    """A library or program: its symbols, its units of debug information, what was built in."""
    modules = importlib.import_module("vllm_forensics.evidence.modules")
    units = importlib.import_module("vllm_forensics.evidence.dwarf_units")
    index = importlib.import_module("vllm_forensics.evidence.gdb_index")
    proofs = importlib.import_module("vllm_forensics.evidence.instrumentation")
    loops = importlib.import_module("vllm_forensics.evidence.eval_loop")

    def one(data: bytes) -> None:
        file = modules.parse_module(memoryview(data))
        _ = (file.build_id, file.soname, file.has_lines, file.imports_by_slot)
        file.function_at(0x1119)
        file.unwind_start(0x1119)
        file.symbol_named("answer")
        for _ in itertools.islice(units.compile_units(file), 100):
            pass
        table = index.UnitTable(file)
        table.index(table.at([0x1119]).values())
        proofs.kind_of(file)
        loops.loop_part(file)

    return one


def small_files() -> Target:
    """What else is read from files: of sanitizers, of symbolizers, and of our own."""
    suppressions = importlib.import_module("vllm_forensics.evidence.suppressions")
    symbolizer = importlib.import_module("vllm_forensics.evidence.symbolizer_output")
    baseline = importlib.import_module("vllm_forensics.evidence.baseline")
    manifest = importlib.import_module("vllm_forensics.evidence.build_manifest")
    demangle = importlib.import_module("vllm_forensics.evidence.demangle")
    calls = importlib.import_module("vllm_forensics.evidence.compiler_calls")
    names = importlib.import_module("vllm_forensics.model.function_name")

    def one(data: bytes) -> None:
        text = _text(data)
        suppressions.parse_suppressions(text)
        symbolizer.parse_symbolizer_json(text)
        symbolizer.parse_symbolizer_lines(text, [0x10, 0x20])
        calls.parse_compiler_calls(data.splitlines())
        demangle.demangle(text)
        names.plain_name(text[:5000])
        for parse in (baseline.parse_baseline, manifest.parse_build_manifest):
            with contextlib.suppress(EvidenceError):
                parse(data)

    return one


TARGETS: dict[str, Callable[[], Target]] = {
    made.__name__: made
    for made in (
        *(sanitizer, incident_log, core_file, strace, supervisor_log, gdb_mi),
        *(sandbox_recording, scheduler_log),
        *(journal, other_dump, signal_frames),
        *(module_file, small_files),
    )
}


def _pieces(data: bytes) -> list[bytes]:
    """What is behind the first two bytes, in two pieces: they say where it is cut."""
    cut = int.from_bytes(data[:2], "little")
    return [data[2 : 2 + cut], data[2 + cut :]]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def main() -> None:
    """Fuzz one target until libFuzzer says that it is enough."""
    atheris: Any = importlib.import_module("atheris")
    # The finder of an editable install loads modules its own way, and Atheris would see none of
    # their code: nothing is then interesting, and every seed is thrown away.
    sys.meta_path[:] = [machinery.BuiltinImporter, machinery.FrozenImporter, machinery.PathFinder]
    with atheris.instrument_imports(include=["vllm_forensics"]):
        target = TARGETS[sys.argv.pop(1)]()

    def test_one_input(data: bytes) -> None:
        with contextlib.suppress(EvidenceError):  # raised on purpose: the evidence is damaged
            target(data)

    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
