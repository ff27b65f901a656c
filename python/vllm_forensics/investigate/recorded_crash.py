"""A crash by the record that systemd-coredump made of it: beside its core, or instead of one."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.journal import this_host
from vllm_forensics.diagnosis.explain import diagnose
from vllm_forensics.diagnosis.signature import signed
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.answer import Depth, Gap, Known, Tier
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.journal import CoreState, JournalCrash
from vllm_forensics.model.report import Crash, Fault, ModuleReport, ThreadReport
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.stack import Stack

KEEPER: Final = "systemd-coredump"
_SETTINGS: Final = "/etc/systemd/coredump.conf"
_PAGE: Final = 4096
_NOT_EXPLAINED: Final = {FaultKind.UNKNOWN, FaultKind.ABORT}
"""What abort() was called for stands in memory, which is not there."""


def with_record(crash: Crash, record: JournalCrash) -> Crash:
    """A core's crash with what the journal says of it."""
    facts = dict(record.facts) | dict(crash.kept_facts)
    gaps = crash.gaps
    if record.truncated:
        gaps = (*gaps, _cut(record))
    return replace(
        crash,
        keeper=KEEPER,
        command=record.fact("command") or crash.command,
        kept_facts=tuple(facts.items()),
        gaps=gaps,
    )


def crash_without_core(record: JournalCrash, source: str) -> Crash:
    """What can be said of a crash by its record alone. `source` is where that was read."""
    from vllm_forensics.investigate.journal_image import JournalImage

    image = JournalImage(record)
    diagnosis = diagnose(image)
    if diagnosis is None:  # an image of a record always has a thread
        raise EvidenceError("a record without a process", remedy="coredumpctl info PID")
    threads = []
    for thread in image.threads:
        answer = image.unwind(thread)
        stack = answer.value if isinstance(answer, Known) else Stack(tid=thread.tid, frames=())
        threads.append(
            ThreadReport(
                tid=thread.tid, name=None, crashed=thread.crashed, stack=stack, registers={}
            )
        )
    has_names = any(frame.function for frame in threads[0].stack.frames)
    name = signal_name(record.signal) if record.signal else "a signal that the record does not name"
    explanation = diagnosis.explanation
    if diagnosis.finding.kind in _NOT_EXPLAINED:
        explanation = f"It was ended by {name}."
        if diagnosis.culprit is not None and diagnosis.culprit.function:
            explanation += f" The nearest call in its own code is {diagnosis.culprit.function}."
    crash = Crash(
        core=record.core or f"{source or 'journal'}: PID {record.pid}",
        program=image.process.program,
        command=image.process.command,
        pid=record.pid,
        architecture=record.architecture,
        signal=diagnosis.signal,
        delivered=diagnosis.delivered,
        fault=Fault(
            kind=diagnosis.finding.kind,
            access=None,
            address=None,
            size=None,
            instruction=None,
            message=diagnosis.finding.message,
        ),
        culprit=diagnosis.culprit,
        threads=tuple(threads),
        modules=tuple(
            ModuleReport(
                path=module.path,
                build_id=module.build_id,
                start=module.start,
                end=module.end,
                debug_info=None,
                matches_core=None,
            )
            for module in image.modules
        ),
        explanation=explanation,
        proof=("the record of systemd-coredump in the journal; the core is not here",),
        next_steps=_steps(record),
        gaps=(what_became_of_it(record),),
        depth=Depth.STACK if has_names else Depth.NOTES,
        keeper=KEEPER,
        kept_facts=record.facts,
    )
    return signed(crash)


def what_became_of_it(record: JournalCrash) -> Gap:
    """Why the core of a record is not here, and what keeps the next one."""
    host = record.fact("host")
    elsewhere = host is not None and host != this_host()
    dump = f"coredumpctl dump {record.pid} -o core.{record.pid}"
    if record.state is CoreState.JOURNAL:
        return _gap(
            "the core lies in the journal itself (Storage=journal)",
            (f"on {host}: " if elsewhere else "") + dump,
        )
    if record.state is CoreState.FILE and elsewhere:
        return _gap(
            f"the core was kept on {host}, as {record.core or 'coredumpctl lists it'}",
            f"there: {dump}; forensics bundle core.{record.pid}; copy the bundle here",
        )
    if record.state is CoreState.FILE:
        return _gap(
            f"the core was kept as {record.core or 'a file'}, and is gone: removed since, by age "
            "(three days, by systemd-tmpfiles), by MaxUse= or KeepFree=, or by hand",
            f"MaxUse= and KeepFree= in {_SETTINGS}; d /var/lib/systemd/coredump - - - 14d in "
            "/etc/tmpfiles.d/coredump.conf keeps them longer",
        )
    if record.truncated:
        return _cut(record)
    if record.core_limit is not None and record.core_limit < _PAGE:
        return _gap(
            f"no core was kept: the process's own limit was {record.core_limit} bytes",
            "ulimit -c unlimited before it starts; in a unit: LimitCORE=infinity",
        )
    return _gap(
        "systemd-coredump kept no core: Storage=none, or it was larger than ExternalSizeMax=",
        f"Storage=external and ExternalSizeMax= in {_SETTINGS}    # systemd-analyze cat-config "
        "systemd/coredump.conf shows what holds",
    )


def _cut(record: JournalCrash) -> Gap:
    limit = record.core_limit
    own = f", or than the process's own limit of {limit} bytes" if limit and limit < 1 << 50 else ""
    kept = "cut off" if record.state is CoreState.FILE else "not kept"
    return _gap(
        f"the core was {kept}: it was larger than ProcessSizeMax= or ExternalSizeMax= allows{own}",
        f"raise ProcessSizeMax= and ExternalSizeMax= in {_SETTINGS}, and LimitCORE= of the unit",
    )


def _gap(what: str, remedy: str) -> Gap:
    return Gap(what=what, remedy=remedy, tier=Tier.JOURNAL)


def _steps(record: JournalCrash) -> tuple[str, ...]:
    steps = [f"coredumpctl info {record.pid}    # all that the journal has, where it was written"]
    unit = record.fact("unit")
    if unit:
        steps.insert(0, f"journalctl -u {shlex.quote(unit)}    # what it said before")
    return tuple(steps)
