"""Holds two crashes against each other, part by part of their signatures."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_forensics.diagnosis.compared_parts import aligned, listed, verdict
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.signature import COUNTED_FRAMES, frame_name, telling_frames
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer_sieve import signature_key
from vllm_forensics.model.sanitizer_why import Compared, Why, WhySide
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.signature import SignaturePart
from vllm_forensics.model.stack import Frame, FrameKind


def why_crashes(one: tuple[WhySide, Crash], other: tuple[WhySide, Crash]) -> Why:
    """Two crashes: every part, and what was left out of the comparison."""
    (side, crash), (other_side, other_crash) = one, other
    dropped = tuple(pair for pair in _dropped(crash, other_crash) if not pair.agrees)
    why = why_parts((side, crash.signature_parts), (other_side, other_crash.signature_parts))
    kinds = tuple(
        dict.fromkeys("lines" if p.name.startswith("line in ") else p.name for p in dropped)
    )
    said = verdict(why.parts, kinds, same=why.same)
    doubts = _doubts(crash, other_crash) if not why.same else ()
    return Why(
        one=side,
        other=other_side,
        same=why.same,
        parts=why.parts,
        dropped=dropped,
        explanation=" ".join((said, *doubts)),
    )


def why_parts(
    one: tuple[WhySide, tuple[SignaturePart, ...]], other: tuple[WhySide, tuple[SignaturePart, ...]]
) -> Why:
    """Two signatures whose parts are known, without the crashes."""
    (side, ours), (other_side, theirs) = one, other
    parts = aligned(ours, theirs)
    same = signature_key(side.signature) == signature_key(other_side.signature)
    return Why(
        one=side,
        other=other_side,
        same=same,
        parts=parts,
        dropped=(),
        explanation=verdict(parts, (), same=same),
    )


def _dropped(one: Crash, other: Crash) -> Iterator[Compared]:
    """All that a signature leaves out."""
    for name, ours, theirs in (
        ("process", str(one.pid), str(other.pid)),
        ("program", one.program, other.program),
        ("signal", signal_name(one.signal.number), signal_name(other.signal.number)),
        ("kind of the fault", one.fault.kind.value, other.fault.kind.value),
        ("access", _access(one), _access(other)),
        ("address", _hex(one.fault.address), _hex(other.fault.address)),
        ("message", one.fault.message, other.fault.message),
        ("handler", one.reraised_by, other.reraised_by),
        ("depth of the recursion", _recursion(one), _recursion(other)),
        ("runtime frames", _runtime(one), _runtime(other)),
        (f"own frames behind number {COUNTED_FRAMES}", _behind(one), _behind(other)),
    ):
        yield Compared(name=name, one=ours or None, other=theirs or None)
    ours_by_name, theirs_by_name = _places(one), _places(other)
    for name, place in ours_by_name.items():
        if name in theirs_by_name:
            yield Compared(name=f"line in {name}", one=place, other=theirs_by_name[name])
    builds, other_builds = _builds(one), _builds(other)
    for module in builds.keys() & other_builds.keys():
        yield Compared(name=f"build of {module}", one=builds[module], other=other_builds[module])


def _access(crash: Crash) -> str | None:
    return crash.fault.access.value if crash.fault.access is not None else None


def _hex(value: int | None) -> str | None:
    return None if value is None else f"{value:#x}"


def _recursion(crash: Crash) -> str | None:
    found = crash.threads[0].stack.recursion if crash.threads else None
    if found is None:
        return None
    return f"at least {found.count}" if found.is_least else str(found.count)


def _frames(crash: Crash) -> tuple[Frame, ...]:
    """The calls that led to the fault: what the signature is made of."""
    thread = crash.threads[0] if crash.threads else None
    return thread.stack.frames[thread.fault_index :] if thread is not None else ()


def _named(crash: Crash, frames: list[Frame]) -> list[str]:
    builds = {module.path: module.build_id for module in crash.modules}
    return list(dict.fromkeys(frame_name(frame, builds) for frame in frames))


def _runtime(crash: Crash) -> str:
    frames = [f for f in _frames(crash) if f.kind is not FrameKind.PYTHON and not is_own(f)]
    return listed(tuple(_named(crash, frames)))


def _behind(crash: Crash) -> str:
    return listed(tuple(_named(crash, telling_frames(_frames(crash)))[COUNTED_FRAMES:]))


def _places(crash: Crash) -> dict[str, str]:
    builds = {module.path: module.build_id for module in crash.modules}
    found: dict[str, str] = {}
    for frame in telling_frames(_frames(crash)):
        if frame.file is not None and frame.line is not None:
            place = f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"
            found.setdefault(frame_name(frame, builds), place)
    return dict(list(found.items())[:COUNTED_FRAMES])


def _builds(crash: Crash) -> dict[str, str | None]:
    own = {frame.module for frame in telling_frames(_frames(crash))}
    return {
        module.path.rsplit("/", 1)[-1]: module.build_id
        for module in crash.modules
        if module.path in own
    }


def _doubts(one: Crash, other: Crash) -> Iterator[str]:
    for word, crash in (("first", one), ("second", other)):
        if crash.depth is Depth.NOTES:
            yield f"The {word} was read without its calls (--depth stack): they may be the same."
        nameless = [
            frame
            for frame in telling_frames(_frames(crash))
            if frame.function is None or not frame.names_trusted
        ]
        if nameless:
            module = (nameless[0].module or "?").rsplit("/", 1)[-1]
            yield (
                f"The {word} has frames without names, of {module}: with the build that crashed, "
                "and its symbols, it may have another signature (--symbols, --executable)."
            )
