"""The lines of a live engine's trace: those of a recording, and what only a live engine can tell.

The first is the header, a recording's `run` line with more in it. `step` lines are a recording's
too, and so are events where a line has one alone. More kinds:

- `events`: what was done to blocks since the line before, an entry for each call.
- `request`: as in a recording; comes when the request does. `hashes`: one for each full block of
  the prompt.
- `schedule`: a step was scheduled; `items` is what the worker is told for each sequence, `more` the
  same in columns for those that go on. What comes after it may have killed the process.
- `step`: the worker's answer came back, with `outputs`: how many tokens each request of its
  `schedule` line has put out by then, 0 where it ended before; the same by name of `others`; the
  `status` of each that ended, and `hashes` of blocks that became full. In traces of before,
  `tokens`: how many came, by name.
- `abort`: requests were ended from outside. `reset`: the cache by content was to be emptied.
- `state`: who holds what; the second line of a segment that is not the first.
- `stopped`: nothing is recorded after this line, and why.

Events stand before the line of the call in which they happened, but a `request` before its own.
Hashes are numbers, given in the order in which contents came: equal where the blocks' contents are,
within one trace, and nothing else can be found out from them. There are no tokens in a trace.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import WorkItem

_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_Block = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Hash = _Count | _Name
"""A name in traces of before."""
_Step = Annotated[int, msgspec.Meta(ge=-1, le=1 << 40)]


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Layers that share block tables."""

    type: _Name
    block_size: _Count
    sliding_window: _Count | None = None
    layers: _Count = 0


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, beyond the parameters that a sandbox has."""

    file: str
    """`vllm.__file__`."""
    pid: _Count
    scheduler: _Name
    """The class: a subclass may decide otherwise."""
    async_scheduling: bool
    connector: _Name | None
    speculative_tokens: _Count
    groups: list[Group]
    options: dict[str, dict[str, bool | int | float | str | None]]
    """Every single value of vLLM's own configuration of scheduler, cache and model."""
    segment: _Count = 1
    """Of a trace that grew too long: 1 is its beginning."""
    unseen: list[_Name] = []
    """Methods that this vLLM does not have: what they would do is not recorded."""


class HeaderLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line. `parameters` has the names of a recording's."""

    kind: Literal["run"]
    schema: Literal["forensics.sandbox_events/1"]
    engine: Literal["v1"]
    version: _Name | None
    parameters: dict[str, Any]
    live: Live


class CameLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request; `arrival` is the first step that may schedule it, `output` the most it may get."""

    kind: Literal["request"]
    id: _Name
    prompt: _Count
    output: _Count
    arrival: _Count = 0
    priority: int = 0
    hashes: list[_Hash] = []


Site = tuple[str, str, _Count]
"""Function, file and line."""
Change = tuple[
    EventKind, _Name | None, Annotated[int, msgspec.Meta(ge=-1)], list[_Block], list[_Count]
]
"""What one call did: kind, request, number of the call site, blocks, and their generations."""


class EventsLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done to blocks of the GPU's pool; `sites` go on with the numbers of earlier ones."""

    kind: Literal["events"]
    step: _Step
    changes: list[Change]
    sites: list[Site] = []


class GoingOn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests that the worker knows: an entry each in `requests`, `starts` and `counts`.

    `blocks`: by place in these, what is appended to the table. `replaced`: places whose table is
    told anew.
    """

    requests: list[_Name]
    starts: list[_Count]
    counts: list[_Count]
    blocks: dict[int, list[_Block]] = {}
    replaced: list[_Count] = []


class ScheduleLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the worker is told; `forgotten` are the sequences whose tables it may drop."""

    kind: Literal["schedule"]
    step: _Count
    items: list[WorkItem]
    more: GoingOn | None = None
    forgotten: list[_Name] = []
    preempted: list[_Name] = []


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a step."""

    kind: Literal["step"]
    step: _Count
    tokens: dict[_Name, _Count] = {}
    outputs: list[_Count] = []
    others: dict[_Name, _Count] = {}
    finished: list[_Name] = []
    status: dict[_Name, _Name] = {}
    hashes: dict[_Name, list[_Hash]] = {}
    preempted: list[_Name] = []
    running: _Count
    waiting: _Count
    swapped: _Count


class AbortLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests that a client gave up, or that were refused after all."""

    kind: Literal["abort"]
    step: _Step
    requests: list[_Name]
    status: _Name


class ResetLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cache by content was emptied, or could not be."""

    kind: Literal["reset"]
    step: _Step
    done: bool


class KnownRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One unfinished request of a `state` line; `tables`: one a group of layers."""

    id: _Name
    prompt: _Count
    tokens: _Count
    computed: _Count
    tables: list[list[_Block]]


class StateLine(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds what, where the beginning of a trace is gone."""

    kind: Literal["state"]
    step: _Step
    held: list[tuple[_Block, _Count, _Count, _Name | None]]
    """Block, holders, generation, owner."""
    ended: list[tuple[_Block, _Count]]
    """Block and generation of those that nobody holds any more."""
    requests: list[KnownRequest]


class RaisedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call into the scheduler raised: a recording's `end`. `error` has the type and the place."""

    kind: Literal["end"]
    outcome: Literal["raised"]
    error: str
    why: str


class StoppedLine(msgspec.Struct, frozen=True, kw_only=True):
    """The recording stopped, the engine did not."""

    kind: Literal["stopped"]
    step: _Step
    why: str


TraceLine = (
    HeaderLine
    | EventsLine
    | CameLine
    | ScheduleLine
    | AnswerLine
    | AbortLine
    | ResetLine
    | StateLine
    | RaisedLine
    | StoppedLine
)
