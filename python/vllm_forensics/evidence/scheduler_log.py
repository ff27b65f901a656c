"""Lines of a vLLM's log about its scheduler: requests, preemption, swapping, the pool's size.

Read off the sources of 0.3.3, 0.4.2, 0.8.5, 0.11.0 and 0.32.0. No version prints single blocks.
The texts of prompts stand in these lines: whatever they hold, it is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from vllm_forensics.model.sandbox_log import (
    LoggedPreemption,
    LoggedRequest,
    LoggedUsage,
    SchedulerLog,
)

_MOST_REQUESTS: Final = 100_000
_TAIL: Final = 4096
"""Letters at the end of a line in which a short message must stand."""
_ID: Final = r"(\S{1,80})"
# INFO 08-20 10:18:39 [scheduler.py:1141] …; since 0.9 with (EngineCore_0 pid=42) before it.
_TIME: Final = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
_RECEIVED: Final = re.compile(rf"Received request {_ID}: ")
_DETAILS: Final = re.compile(rf"Request {_ID} details: prompt: ")
_ADDED: Final = re.compile(rf"Added request {_ID}\.\s*$")
_ABORTED: Final = re.compile(
    r"(?:Aborted request(?:\(s\))? (\S{1,2000})\.|Request (\S{1,80}) aborted\.)\s*$"
)
_PREEMPTED: Final = re.compile(
    rf"Sequence group {_ID} is preempted by (?:PreemptionMode\.)?(RECOMPUTE|SWAP) mode"
)
_CUMULATIVE: Final = re.compile(r"total_num_cumulative_preemption=(\d{1,12})")
_TOO_LONG: Final = re.compile(rf"Failing the request {_ID} because there's not enough kv")
_BLOCKS: Final = re.compile(
    r"# (?:GPU|cuda|CUDA|cpu|CPU|tpu|hpu|neuron) blocks: (\d{1,9}), # CPU blocks: (\d{1,9})"
)
_BLOCKS_V1: Final = re.compile(
    r"cache_config_info with initialization after num_gpu_blocks is: (\d{1,9})"
)
_OVERRIDE: Final = re.compile(r"num_gpu_blocks_override=(\d{1,9})")
_TOKENS: Final = re.compile(r"KV cache size: ([\d,]{1,15}) tokens")
_VERSION: Final = re.compile(
    r"(?:LLM engine \(v|API server version |vLLM version )(\d{1,3}(?:\.\d{1,4}){1,3})"
)
_USAGE: Final = re.compile(
    r"Running: (\d{1,9}) reqs, (?:Swapped: (\d{1,9}) reqs, )?(?:Pending|Waiting): (\d{1,9}) reqs"
    r"(?:, [A-Z][^,%]{1,60}){0,3}, GPU KV cache usage: (\d{1,3}(?:\.\d{1,3})?)%"
)
_OPTION: Final = re.compile(
    r"\b(block_size|max_num_seqs|max_num_batched_tokens|max_model_len|max_seq_len|sliding_window)"
    r"['\"]?[=:] ?(\d{1,7})\b"
)
_MAX_TOKENS: Final = re.compile(r"\bmax_tokens=(\d{1,9})\b")
_BEST_OF: Final = re.compile(r"\bbest_of=(\d{1,3})\b")
_N: Final = re.compile(r"Params\(n=(\d{1,3})\b")
_IDS: Final = "prompt_token_ids: ["
_PARAMS: Final = ("sampling_params: SamplingParams(", "params: SamplingParams(")


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.log = SchedulerLog()
        self.requests: dict[str, LoggedRequest] = {}
        self.preemptions: list[LoggedPreemption] = []
        self.usage: list[LoggedUsage] = []
        self.aborted: dict[str, float | None] = {}
        self.refused: dict[str, None] = {}
        self.options: dict[str, int] = {}
        self.lost = 0
        self._start: int | None = None
        self._readers: tuple[tuple[str, Callable[[str, int], None]], ...] = (
            ("Received request ", self._received),
            (" details: prompt: ", self._details),
            ("Added request ", self._added),
            ("bort", self._ended),
            (" is preempted by ", self._preempted),
            ("Failing the request ", self._refused),
            (" blocks: ", self._blocks),
            ("num_gpu_blocks", self._blocks),
            ("KV cache size: ", self._tokens),
            ("KV cache usage: ", self._used),
            ("LLM engine (v", self._engine),
            ("version", self._engine),
            ("args: ", self._engine),
        )

    def take(self, line: str, number: int) -> None:
        """Look at one line."""
        for needle, read in self._readers:
            if needle in line:
                read(line, number)

    def _time(self, line: str) -> float | None:
        found = _TIME.search(line, 0, 200)
        if found is None:
            return None
        month, day, hour, minute, second = map(int, found.groups())
        # Months of 31 days: only differences count, and a month's end is no reason to be exact.
        now = (((month * 31 + day) * 24 + hour) * 60 + minute) * 60 + second
        self._start = now if self._start is None else self._start
        return float(now - self._start)

    def _add(self, request: LoggedRequest) -> None:
        """Of two lines about one request, each tells what the other does not."""
        known = self.requests.get(request.id)
        if known is None:
            if len(self.requests) >= _MOST_REQUESTS:
                self.lost += 1
                return
            self.requests[request.id] = request
            return
        self.requests[request.id] = replace(
            known,
            prompt_len=known.prompt_len or request.prompt_len,
            max_tokens=known.max_tokens or request.max_tokens,
            best_of=known.best_of or request.best_of,
        )

    def _received(self, line: str, number: int) -> None:
        found = _RECEIVED.search(line)
        if found is None:
            return
        # Behind the prompt's text, which may hold anything: from the end.
        start = max((line.rfind(words) for words in _PARAMS), default=-1)
        params = line[start:] if start >= found.end() else ""
        best_of = _first(_BEST_OF, params) or _first(_N, params)
        self._add(
            LoggedRequest(
                id=found.group(1),
                line=number,
                time_s=self._time(line),
                prompt_len=_count_ids(line),
                max_tokens=_first(_MAX_TOKENS, params),
                best_of=best_of,
            )
        )

    def _details(self, line: str, number: int) -> None:
        found = _DETAILS.search(line)
        if found is not None:
            self._add(
                LoggedRequest(
                    id=found.group(1),
                    line=number,
                    time_s=self._time(line),
                    prompt_len=_count_ids(line),
                )
            )

    def _added(self, line: str, number: int) -> None:
        found = _ADDED.search(line[-_TAIL:])
        if found is not None:
            self._add(LoggedRequest(id=found.group(1), line=number, time_s=self._time(line)))

    def _ended(self, line: str, number: int) -> None:
        del number
        found = _ABORTED.search(line[-_TAIL:])
        if found is not None and len(self.aborted) < _MOST_REQUESTS:
            time_s = self._time(line)
            for name in (found.group(1) or found.group(2)).split(","):
                self.aborted.setdefault(name, time_s)

    def _preempted(self, line: str, number: int) -> None:
        found = _PREEMPTED.search(line)
        if found is not None and len(self.preemptions) < _MOST_REQUESTS:
            self.preemptions.append(
                LoggedPreemption(
                    request=found.group(1),
                    line=number,
                    swaps=found.group(2) == "SWAP",
                    number=_first(_CUMULATIVE, line),
                )
            )

    def _refused(self, line: str, number: int) -> None:
        del number
        found = _TOO_LONG.search(line)
        if found is not None:
            self.refused.setdefault(found.group(1))

    def _blocks(self, line: str, number: int) -> None:
        del number
        both = _BLOCKS.search(line)
        if both is not None:
            self.log = replace(
                self.log, gpu_blocks=int(both.group(1)), cpu_blocks=int(both.group(2))
            )
        blocks = _first(_OVERRIDE, line) or _first(_BLOCKS_V1, line)
        if blocks is not None:
            self.log = replace(self.log, gpu_blocks=blocks)

    def _tokens(self, line: str, number: int) -> None:
        del number
        found = _TOKENS.search(line)
        if found is not None:
            self.log = replace(self.log, gpu_tokens=int(found.group(1).replace(",", "") or 0))

    def _used(self, line: str, number: int) -> None:
        found = _USAGE.search(line)
        if found is not None and len(self.usage) < _MOST_REQUESTS:
            running, swapped, waiting, percent = found.groups()
            self.usage.append(
                LoggedUsage(
                    line=number,
                    running=int(running),
                    waiting=int(waiting),
                    swapped=int(swapped or 0),
                    gpu=float(percent) / 100,
                )
            )

    def _engine(self, line: str, number: int) -> None:
        del number
        if "Received request " in line:
            return  # a prompt may speak of anything
        found = _VERSION.search(line)
        if found is not None:
            self.log = replace(self.log, version=found.group(1))
        for name, value in _OPTION.findall(line[:65_536]):
            self.options[name] = int(value)


def parse_scheduler_log(lines: Iterable[str]) -> SchedulerLog:
    """What the lines say; everything else is skipped."""
    reading = _Reading()
    count = 0
    for count, line in enumerate(lines, 1):
        reading.take(line, count)
    return replace(
        reading.log,
        options=tuple(sorted(reading.options.items())),
        requests=tuple(reading.requests.values()),
        preemptions=tuple(reading.preemptions),
        aborted=tuple(reading.aborted.items()),
        refused=tuple(reading.refused),
        usage=tuple(reading.usage),
        lines=count,
        lost=reading.lost,
    )


def _count_ids(line: str) -> int | None:
    """The length of the last list of token ids; None where it is not there or was cut."""
    start = line.rfind(_IDS)
    end = line.find("]", start) if start >= 0 else -1
    if end < 0:
        return None
    inside = line[start + len(_IDS) : end]
    return inside.count(",") + 1 if inside.strip() else None


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(found.group(1))
