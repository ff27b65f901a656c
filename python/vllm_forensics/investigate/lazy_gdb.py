"""One gdb on one core, started at the first question; a failure of it is a gap from then on."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeVar

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.gdb_mi import MiResult, parse_records
from vllm_forensics.investigate.gdb_loading import GdbLoader
from vllm_forensics.model.answer import Gap, Tier
from vllm_forensics.model.process import Thread

T = TypeVar("T")

_NOT_ASKED: Final = Gap(what="gdb was not asked", tier=Tier.GDB)


class LazyGdb:
    """Asks gdb about a core that a loader prepares it for."""

    def __init__(self, loader: GdbLoader, start: Callable[[], GdbSession] | None) -> None:
        """Nothing is started yet; without a `start`, gdb is never asked."""
        self._loader = loader
        self._start = start
        self._session: GdbSession | None = None
        self._failure: Gap | None = None
        self._threads: dict[int, str] = {}

    def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End gdb, if it was started."""
        if self._session is not None:
            self._session.__exit__(kind, error, trace)

    @property
    def failure(self) -> Gap | None:
        """Why gdb gave nothing, if it was wanted and failed."""
        return self._failure

    @property
    def gap(self) -> Gap | None:
        """Why gdb has no answer, if that is so: it failed, or is not wanted."""
        return _NOT_ASKED if self._start is None else self._failure

    def thread(self, thread: Thread) -> str | Gap:
        """Gdb's number of a thread."""
        self._open()
        if self.gap is not None:
            return self.gap
        number = self._threads.get(thread.tid)
        return number or Gap(what=f"gdb does not list thread {thread.tid}", tier=Tier.GDB)

    def command(self, text: str) -> MiResult | Gap:
        """Give a machine interface command."""
        return self._ask(lambda session: session.command(text))

    def console(self, text: str) -> MiResult | Gap:
        """Give a command as it is typed at the prompt."""
        return self._ask(lambda session: session.console(text))

    def do(self, action: Callable[[GdbSession], T]) -> T | None:
        """Do something with the session; None where gdb fails at it, or is not running."""
        if self.gap is not None or self._session is None:
            return None
        try:
            return action(self._session)
        except ToolError as error:
            self._fail(error)
            return None

    def _ask(self, question: Callable[[GdbSession], list[str]]) -> MiResult | Gap:
        self._open()
        lines = self.do(question)
        return self.gap or _NOT_ASKED if lines is None else parse_records(lines)

    def _open(self) -> None:
        """Start gdb on the core, with the symbols of the modules that stand on a stack."""
        if self._start is None or self._session is not None or self._failure is not None:
            return
        session = self._start()
        try:
            self._session = session.__enter__()
            self._threads = self._loader.load(self._session)
        except ToolError as error:
            self._fail(error)

    def _fail(self, error: ToolError) -> None:
        self._failure = Gap(what=error.message, remedy=error.remedy, tier=Tier.GDB)
