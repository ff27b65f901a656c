"""Crashes that systemd's journal tells of: what it adds to a core, and those whose core is gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from vllm_forensics.capture.core_archive import in_archive
from vllm_forensics.capture.core_keepers import systemd_facts
from vllm_forensics.capture.core_sources import find_cores
from vllm_forensics.capture.files import is_regular_file, written_s
from vllm_forensics.capture.journal import (
    ask_journal,
    core_matches,
    has_journal,
    is_journal_place,
    journal_head,
    opened_text,
)
from vllm_forensics.capture.remote_files import is_remote
from vllm_forensics.errors import EvidenceError, ToolError
from vllm_forensics.evidence.coredumpctl_output import is_coredumpctl, parse_coredumpctl
from vllm_forensics.evidence.journal_records import (
    COREDUMP_MESSAGE,
    Fields,
    is_journal_export,
    parse_journal_export,
    with_held_cores,
)
from vllm_forensics.investigate.recorded_crash import crash_without_core
from vllm_forensics.model.journal import JournalCrash
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure

_MATCH: Final = f"MESSAGE_ID={COREDUMP_MESSAGE}"
_JOURNAL: Final = "systemd's journal"
_MAX_TEXT: Final = 256 << 20
_LAG_S: Final = 5.0
"""The core is written a little after the fault that its record tells the time of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What journals tell, parted by what can be looked into."""

    paths: tuple[str, ...] = ()
    """What was named and is no journal, and the cores that records name and that are here."""
    records: tuple[tuple[str, JournalCrash], ...] = ()
    """Records of those cores, by path."""
    crashes: tuple[Crash, ...] = ()
    """Crashes whose core is not here."""
    failures: tuple[Failure, ...] = ()


def told_crashes(paths: Sequence[str], since_s: float | None, *, live: bool) -> Told:
    """Part what was named into cores and what journals tell; without a path, the newest crash.

    `since_s` leaves out what is older, in seconds since the epoch. `live`: all that this machine's
    own journal knows too.
    """
    if not paths and not live:
        return with_live_records(newest_told(find_cores((), since_s)))
    told = journals_among(paths, since_s)
    found = find_cores(told.paths, since_s) if told.paths else []
    told = replace(told, paths=tuple(found))
    if live:
        told = _joined(told, live_journal(since_s))
    return with_live_records(replace(told, paths=tuple(dict.fromkeys(told.paths))))


def journals_among(paths: Sequence[str], since_s: float | None) -> Told:
    """Read the journals among `paths`; cores that they name come to the rest."""
    told = Told()
    for path in paths:
        try:
            found = _records(path, since_s)
        except (EvidenceError, ToolError) as error:
            failure = Failure(path=path, error=error.message, remedy=error.remedy)
            told = replace(told, failures=(*told.failures, failure))
            continue
        if found is None:
            told = replace(told, paths=(*told.paths, path))
            continue
        recent = [crash for crash in found if _is_since(crash, since_s)]
        if not found:
            told = replace(told, failures=(*told.failures, _nothing_in(path)))
        told = _joined(told, _parted(recent, path, path))
    return told


def live_journal(since_s: float | None) -> Told:
    """All crashes that this machine's own journal knows, the newest first."""
    try:
        found = _asked(_MATCH, since_s=since_s)
    except ToolError as error:
        failure = Failure(path=_JOURNAL, error=error.message, remedy=error.remedy)
        return Told(failures=(failure,))
    return _parted(found, _JOURNAL) if found else Told(failures=(_nothing_live(since_s),))


def _nothing_live(since_s: float | None) -> Failure:
    """A machine without a journal is another matter than a journal without a crash."""
    if not has_journal():
        return Failure(
            path=_JOURNAL,
            error="is not kept here: neither /var/log/journal nor /run/log/journal is a folder",
            remedy="forensics core    # looks for cores in folders; forensics doctor says in which",
        )
    return Failure(
        path=_JOURNAL,
        error="tells of no core dump" + (" since then" if since_s is not None else ""),
        remedy="coredumpctl list    # only what systemd-coredump took: "
        "cat /proc/sys/kernel/core_pattern",
    )


def newest_told(newest: Sequence[str]) -> Told:
    """The newest crash of this machine's journal, if it is younger than the newest core."""
    if not has_journal():
        return Told(paths=tuple(newest))
    try:
        record = next(iter(_asked(_MATCH, newest=1)), None)
    except ToolError:
        return Told(paths=tuple(newest))
    if record is None or record.seconds is None:
        return Told(paths=tuple(newest))
    if any((written_s(core) or 0.0) + _LAG_S > record.seconds for core in newest):
        return Told(paths=tuple(newest))
    return _parted([record], _JOURNAL)


def with_live_records(told: Told) -> Told:
    """Add what this machine's journal says of systemd-coredump's files among the paths."""
    known = {path for path, _ in told.records}
    asked = [path for path in told.paths if path not in known and systemd_facts(path)]
    if not asked or not has_journal():
        return told
    absolute = {os.path.abspath(path): path for path in asked}  # noqa: PTH100 - surrogates
    try:
        data = ask_journal(_MATCH, *core_matches(list(absolute)))
    except ToolError:
        return told
    found = _crashes(parse_journal_export(memoryview(data)))
    gone = [crash for crash in found if crash.core and not is_regular_file(crash.core)]
    kept = [(absolute[crash.core], crash) for crash in found if crash.core in absolute]
    lost = {absolute[crash.core] for crash in gone if crash.core in absolute}
    return replace(
        told,
        paths=tuple(path for path in told.paths if path not in lost),
        records=(*told.records, *((path, crash) for path, crash in kept if path not in lost)),
        crashes=(*told.crashes, *(crash_without_core(crash, "") for crash in gone)),
    )


def _records(path: str, since_s: float | None) -> list[JournalCrash] | None:
    """The crashes of a journal; None where `path` is none."""
    if is_remote(path):
        return None
    if is_journal_place(path):
        return _asked(_MATCH, place=path, since_s=since_s)
    try:
        head = journal_head(path)
    except EvidenceError:
        return None  # what is wrong with it is told when it is opened
    if is_journal_export(head):
        with opened_text(path) as text:
            return _crashes(parse_journal_export(text))
    if head[:4] != b"\x7fELF" and is_coredumpctl(head):
        with opened_text(path) as text:
            return _crashes(parse_coredumpctl(bytes(text[:_MAX_TEXT]).decode("utf-8", "replace")))
    return None


def _asked(
    match: str,
    *,
    place: str | None = None,
    since_s: float | None = None,
    newest: int | None = None,
) -> list[JournalCrash]:
    """What a journal knows; which records hold their core themselves is asked where it matters.

    Raises:
        ToolError: journalctl is missing, slow, or could not read the journal.

    """
    ask = partial(ask_journal, match, place=place, since_s=since_s)
    ask = ask if newest is None else partial(ask, newest=newest)
    records = list(parse_journal_export(memoryview(ask())))
    if all("COREDUMP_FILENAME" in record for record in records):
        return _crashes(records)
    return _crashes(with_held_cores(records, parse_journal_export(memoryview(ask(whole=False)))))


def _crashes(records: Iterable[Fields]) -> list[JournalCrash]:
    from vllm_forensics.evidence.journal_crash import journal_crash

    return [crash for fields in records if (crash := journal_crash(fields)) is not None]


def _parted(crashes: Iterable[JournalCrash], source: str, export: str | None = None) -> Told:
    """`export` is the file that holds the cores that records have in themselves."""
    paths: list[str] = []
    records: list[tuple[str, JournalCrash]] = []
    without: dict[JournalCrash, Crash] = {}
    for crash in crashes:
        if crash.core and is_regular_file(crash.core):
            paths.append(crash.core)
            records.append((crash.core, crash))
        elif export is not None and crash.member is not None:
            paths.append(in_archive(export, crash.member))
            records.append((paths[-1], crash))
        else:
            without.setdefault(crash, crash_without_core(crash, source))
    return Told(paths=tuple(paths), records=tuple(records), crashes=tuple(without.values()))


def _joined(left: Told, right: Told) -> Told:
    return Told(
        paths=(*left.paths, *right.paths),
        records=(*left.records, *right.records),
        crashes=(*left.crashes, *right.crashes),
        failures=(*left.failures, *right.failures),
    )


def _is_since(crash: JournalCrash, since_s: float | None) -> bool:
    return since_s is None or crash.seconds is None or crash.seconds >= since_s


def _nothing_in(path: str) -> Failure:
    return Failure(
        path=path,
        error="is a journal, but no core dump's record could be read whole in it",
        remedy=f"journalctl --all -o export {_MATCH} > FILE    "
        "# was it filtered, or cut off? forensics log reads what else died",
    )
