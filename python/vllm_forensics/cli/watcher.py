"""The options of `forensics run` that let a sanitizer, or its like, watch the program."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_forensics.errors import UsageError

if TYPE_CHECKING:
    from vllm_forensics.model.run import RunReport
    from vllm_forensics.model.sanitized import RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who is to watch, as the options say."""

    asan: bool
    ubsan: bool
    tsan: bool
    preload_only: bool
    valgrind: bool
    sample: bool
    build: Path | None

    @property
    def watches(self) -> bool:
        """Was anybody asked to?"""
        return self._built or self.valgrind or self.sample

    @property
    def _built(self) -> bool:
        """Does a runtime watch that code may have been built for?"""
        return self.asan or self.ubsan or self.tsan or self.preload_only

    def plan(self, command: tuple[str, ...], folder: Path) -> RunPlan | None:
        """The plan, its Python proved to start; None where nobody is to watch.

        Raises:
            UsageError: options that exclude each other.
            ToolError: a tool or runtime is missing, or Python does not start with it.

        """
        if sum((self._built, self.valgrind, self.sample)) > 1:
            raise UsageError(
                "sanitizers, valgrind and sampling each want to be the only one to watch",
                remedy="run once with each",
            )
        if self.build is not None and not self._built:
            raise UsageError(
                "--build says where a sanitizer's build is", remedy="add --asan or --tsan"
            )
        if not self.watches:
            return None
        from vllm_forensics.investigate.sanitized_run import require_start

        plan = self._sanitized(command, folder) if self._built else self._unbuilt(command, folder)
        require_start(plan)
        return plan

    def _unbuilt(self, command: tuple[str, ...], folder: Path) -> RunPlan:
        from vllm_forensics.investigate.unbuilt_plan import (
            UnbuiltRequest,
            plan_sample,
            plan_valgrind,
        )

        request = UnbuiltRequest(command=command, folder=folder.absolute(), environment=os.environ)
        return plan_valgrind(request) if self.valgrind else plan_sample(request)

    def _sanitized(self, command: tuple[str, ...], folder: Path) -> RunPlan:
        from vllm_forensics.investigate.sanitized_plan import SanitizeRequest, plan_sanitized

        return plan_sanitized(
            SanitizeRequest(
                command=command,
                flavour=self._flavour(),
                folder=folder.absolute(),
                environment=os.environ,
                build=self.build,
                preload_only=self.preload_only,
            )
        )

    def _flavour(self) -> str:
        names = (("asan", self.asan or self.preload_only), ("ubsan", self.ubsan))
        chosen = "-".join(name for name, on in names if on)
        if self.tsan and chosen:
            raise UsageError(
                "ThreadSanitizer cannot be combined with the others",
                remedy="run twice: forensics run --asan --ubsan, then forensics run --tsan",
            )
        return "tsan" if self.tsan else chosen


def watcher_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a click command, which gets them as one argument: `watcher`."""

    @click.option("--asan", is_flag=True, help="AddressSanitizer watches.")
    @click.option("--ubsan", is_flag=True, help="UndefinedBehaviorSanitizer; goes with --asan.")
    @click.option("--tsan", is_flag=True, help="ThreadSanitizer watches.")
    @click.option(
        "--build",
        type=click.Path(path_type=Path),
        help="What forensics build made, or the modules' folder. Default: .forensics/asan or so.",
    )
    @click.option(
        "--preload-only",
        is_flag=True,
        help="AddressSanitizer watches code that was not built for it, and sees less.",
    )
    @click.option("--valgrind", is_flag=True, help="Valgrind watches: slow, nothing is rebuilt.")
    @click.option(
        "--sample",
        is_flag=True,
        help="GWP-ASan guards a few allocations among many: fast enough for production.",
    )
    @wraps(command)
    def with_watcher(**options: Any) -> None:
        names = ("asan", "ubsan", "tsan", "build", "preload_only", "valgrind", "sample")
        watcher = Watcher(**{name: options.pop(name) for name in names})
        command(watcher=watcher, **options)

    return with_watcher


def with_sanitizer(report: RunReport, plan: RunPlan) -> RunReport:
    """The report of a run with what the watcher said."""
    from vllm_forensics.investigate import sanitized_run

    return sanitized_run.with_sanitizer(report, plan)
