"""Holds a triage against what was seen before, and records it."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from vllm_forensics.capture.files import written_s
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.errors import StoreError, UsageError
from vllm_forensics.investigate.herd import Explained
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.cases import Case, CaseListing, ModuleBuild, Seen, Sighting
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.run import RunReport
from vllm_forensics.model.sanitizer_sieve import signature_key
from vllm_forensics.render.clean import clean
from vllm_forensics.render.wire import crash_to_wire
from vllm_forensics.store.cases import is_there, opened_cases
from vllm_forensics.store.location import cases_path

_LARGEST_EXAMPLE: Final = 64 << 10
_FRAMES: Final = 32
_CORES_A_WRITE: Final = 64
_SECONDS_A_WRITE: Final = 1.0
_DEPTHS: Final = {Depth.NOTES: 0, Depth.STACK: 1, Depth.FULL: 2}


def run_with_cases(report: RunReport) -> RunReport:
    """The report with what was known of each crash before; its own cores are recorded.

    A store that cannot be used costs only this answer: it becomes one of the failures.
    """
    recorder = CaseRecorder()
    crashes = tuple(recorder.known(crash) for crash in report.crashes)
    recorder.close()
    failure = recorder.failure
    failures = report.failures if failure is None else (*report.failures, failure)
    return replace(report, crashes=crashes, failures=failures)


def list_cases(prefix: str = "", *, whole: bool = False) -> CaseListing:
    """The cases whose signature, or its hash, begins with `prefix`, the latest first.

    Raises:
        StoreError: the store cannot be read.

    """
    path = cases_path()
    if not is_there(path):
        return CaseListing(store=str(path), cases=())
    with opened_cases(path) as store:
        return CaseListing(store=str(path), cases=store.cases(prefix, whole=whole))


def the_case(prefix: str) -> Case:
    """The one case that is meant, with all that is kept of it.

    Raises:
        UsageError: none, or several.
        StoreError: the store cannot be read.

    """
    found = list_cases(prefix, whole=True)
    if len(found.cases) != 1:
        named = ", ".join(case.signature for case in found.cases[:5])
        raise UsageError(
            f"{len(found.cases)} known signatures begin with {prefix}: {named}"
            if found.cases
            else f"no known signature begins with {prefix}",
            remedy="forensics cases list    # a signature, its hash, or the beginning of either",
        )
    return found.cases[0]


def note_case(prefix: str, text: str) -> Case:
    """Keep a note with a case; see `the_case` for errors."""
    case = the_case(prefix)
    with opened_cases(cases_path()) as store:
        store.note(case.signature, text)
    return replace(case, note=text)


def forget_cases(prefixes: Sequence[str]) -> tuple[Case, ...]:
    """Remove cases; none where one of the prefixes does not name one. See `the_case` for errors."""
    cases = tuple(the_case(prefix) for prefix in prefixes)
    if cases:
        with opened_cases(cases_path()) as store:
            store.forget(case.signature for case in cases)
    return cases


class CaseRecorder:
    """Says of each crash what was known before this triage, and records it: many in one write.

    A process that is killed loses at most the last write. A store that cannot be used is asked no
    more: see `failure`.
    """

    def __init__(self) -> None:
        """Nothing is asked or written yet."""
        self._path = cases_path()
        self._host = socket.gethostname()
        self._seen: dict[str, Seen] = {}
        self._examples: dict[str, int] = {}
        self._waiting: list[Sighting] = []
        self._written_s = time.monotonic()
        self.failure: Failure | None = None
        """Why what was seen before is not known, or not all was recorded."""

    def each(self, found: Iterable[Explained]) -> Generator[Explained]:
        """The same, each crash with what was known of it; all is written, whatever ends it."""
        try:
            for one in found:
                if isinstance(one.result, Crash):
                    one = replace(one, result=self.known(one.result))
                yield one
        finally:
            self.close()

    def known(self, crash: Crash) -> Crash:
        """The crash with what was known of its signature; it is recorded with one of the next."""
        # From the notes alone the calls are not known: their signature is no bug's name.
        if crash.depth is Depth.NOTES or self.failure is not None:
            return crash
        try:
            seen = self._seen_before(crash.signature)
            self._waiting.append(self._sighting(crash))
            waited_s = time.monotonic() - self._written_s
            if len(self._waiting) >= _CORES_A_WRITE or waited_s > _SECONDS_A_WRITE:
                self._write()
        except StoreError as error:
            self._fail(error)
            return crash
        return replace(crash, seen=seen)

    def close(self) -> None:
        """Write what waits."""
        try:
            self._write()
        except StoreError as error:
            self._fail(error)

    def _seen_before(self, signature: str) -> Seen:
        key = signature_key(signature)
        if key not in self._seen:
            with opened_cases(self._path) as store:
                self._seen[key] = store.seen(signature)
        return self._seen[key]

    def _write(self) -> None:
        if self._waiting:
            with opened_cases(self._path) as store:
                store.record(self._waiting)
        self._waiting = []  # not before: a write that is interrupted is made again at the end
        self._written_s = time.monotonic()

    def _fail(self, error: StoreError) -> None:
        self._waiting = []
        path = str(self._path)
        said = error.message.removeprefix(path).lstrip(": ")  # it is told once
        self.failure = Failure(path=path, error=said, remedy=error.remedy)

    def _sighting(self, crash: Crash) -> Sighting:
        """The deepest crash of each signature is the one that is kept as its example."""
        key, depth, now = signature_key(crash.signature), _DEPTHS[crash.depth], time.time()
        is_deepest = depth > self._examples.get(key, -1)
        self._examples[key] = max(depth, self._examples.get(key, -1))
        return Sighting(
            core=crash_key(crash),
            signature=clean(crash.signature),
            parts=clean(crash.signature_parts),
            path=clean(_whole_path(crash.core)),
            host=clean(dict(crash.kept_facts).get("host") or self._host),
            seen_s=min(now, max(0.0, written_s(crash.core) or _told_s(crash) or now)),
            depth=depth,
            builds=clean(_builds(crash)),
            example=_example(crash) if is_deepest else "",
        )


def _told_s(crash: Crash) -> float | None:
    """When it happened as its keeper wrote it down, for a core that is gone."""
    try:
        return datetime.fromisoformat(dict(crash.kept_facts)["time"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


def _whole_path(core: str) -> str:
    return core if "://" in core else str(Path(core).absolute())


def crash_key(crash: Crash) -> str:
    """One crash, whatever file its core lies in: a copy, a compressed or a small one is no other.

    Where everything was mapped and what every register held are the same only in the same crash:
    the kernel shuffles addresses, and counts processes and threads on.
    """
    digest = hashlib.sha256()

    def add(*values: object) -> None:
        digest.update(f"{values}\n".encode("utf-8", "backslashreplace"))

    add(crash.pid, crash.signal.number, crash.signal.address, crash.delivered.number)
    for thread in crash.threads:
        add(thread.tid, sorted(thread.registers.items()) if thread.crashed else "")
    for module in crash.modules:
        add(module.path, module.start, module.build_id)
    return digest.hexdigest()[:32]


def _builds(crash: Crash) -> tuple[ModuleBuild, ...]:
    """The builds of the modules of the user's own that stand on the crashing stack."""
    frames = crash.threads[0].stack.frames if crash.threads else ()
    own = {frame.module for frame in frames if is_own(frame)} | {crash.program}
    return tuple(
        dict.fromkeys(
            ModuleBuild(module=module.path.rsplit("/", 1)[-1], build_id=module.build_id)
            for module in crash.modules
            if module.path in own and module.build_id is not None
        )
    )


def _example(crash: Crash) -> str:
    """The crashing thread and its modules as cleaned JSON; nothing where even that is large."""
    [thread] = crash.threads[:1] or [None]
    if thread is None:
        return ""
    frames = thread.stack.frames[: thread.fault_index + _FRAMES]
    named = {frame.module for frame in frames} | {crash.program}
    small = replace(
        crash,
        threads=(replace(thread, stack=replace(thread.stack, frames=frames)),),
        modules=tuple(module for module in crash.modules if module.path in named),
    )
    for kept in (small, replace(small, objects=()), replace(small, objects=(), modules=())):
        text = msgspec.json.encode(crash_to_wire(clean(kept)))
        if len(text) <= _LARGEST_EXAMPLE:
            return text.decode()
    return ""
