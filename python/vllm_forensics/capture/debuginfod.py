"""Debug information and executables by build-id from debuginfod servers: only when asked for.

The protocol is two paths (debuginfod(8)): /buildid/BUILDID/debuginfo and .../executable.
What comes is not believed: the caller looks at its build-id before it is kept.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import size_of
from vllm_forensics.capture.process import Limits, plain_environment, run_program
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.model.record import dataclass

_BUILD_ID: Final = re.compile(r"(?:[0-9a-f]{2}){4,32}")
"""It comes from a core, and goes into a path."""
_VARIABLE: Final = "DEBUGINFOD_URLS"
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY")
_MAX_SERVERS: Final = 8
_FETCHER: Final = Path(__file__).with_name("debuginfod_fetch.py")
_NOT_THERE: Final = {404, 410}


class FetchedKind(StrEnum):
    """What a server has of a build."""

    DEBUG = "debuginfo"
    CODE = "executable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What all fetching of one run may cost."""

    file_bytes: int = 1 << 30
    all_bytes: int = 4 << 30
    file_s: float = 90.0
    all_s: float = 300.0
    idle_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file of a server, checked and kept."""

    path: str
    url: str
    """The server's, as it was given."""


def servers_of(asked: str | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The servers that `--debuginfod URL` names, else those of DEBUGINFOD_URLS.

    Raises:
        UsageError: none is named, or it is no http address.

    """
    words = (asked or environment.get(_VARIABLE, "")).split()
    for word in words:
        if not word.startswith(("http://", "https://")):
            raise UsageError(
                f"{word} is no address of a debuginfod server", remedy="--debuginfod https://HOST/"
            )
    if not words:
        raise UsageError(
            f"--debuginfod: neither an address was given nor is {_VARIABLE} set",
            remedy="--debuginfod https://debuginfod.debian.net    # or your distribution's",
        )
    return tuple(dict.fromkeys(word.rstrip("/") for word in words))[:_MAX_SERVERS]


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where what was fetched is kept (XDG Base Directory, 0.8)."""
    named = environment.get("XDG_CACHE_HOME", "")
    base = Path(named) if named.startswith("/") else Path("~/.cache").expanduser()
    return base / "vllm-forensics" / "debuginfod"


class Debuginfod:
    """The servers of one run. Safe to use from several threads; each file is asked for once."""

    def __init__(
        self,
        servers: Sequence[str],
        is_of_build: Callable[[str, str], bool],
        *,
        folder: Path | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        """`is_of_build(path, build_id)` opens a file and says whether it is of that build."""
        self.servers = tuple(servers)
        self._is_of_build = is_of_build
        self._folder = folder or cache_folder()
        self._limits = limits or FetchLimits()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, FetchedKind], Fetched | EvidenceError | None] = {}
        self._given_up: dict[str, str] = {}
        self._bytes = 0
        self._seconds = 0.0

    def fetch(self, build_id: str, kind: FetchedKind) -> Fetched | None:
        """The file of that build; None where no server has it.

        Raises:
            EvidenceError: a server failed, lied or was too slow, or the budget is spent.

        """
        if _BUILD_ID.fullmatch(build_id) is None:
            return None
        key = build_id, kind
        with self._lock:  # one at a time: the budget is one, and servers are shared
            if key not in self._known:
                try:
                    self._known[key] = self._fetch(build_id, kind)
                except EvidenceError as error:
                    self._known[key] = error
            found = self._known[key]
        if isinstance(found, EvidenceError):
            raise found
        return found

    def _fetch(self, build_id: str, kind: FetchedKind) -> Fetched | None:
        folder = self._folder / build_id
        kept, source = folder / kind.value, folder / f"{kind.value}.server"
        if kept.is_file() and self._is_of_build(str(kept), build_id):
            return Fetched(path=str(kept), url=_first_line(source) or "an earlier run")
        failure: EvidenceError | None = None
        for server in self.servers:
            if server in self._given_up:
                failure = _failed(server, self._given_up[server])
                continue
            try:
                if self._download(f"{server}/buildid/{build_id}/{kind.value}", kept, build_id):
                    source.write_text(server + "\n", encoding="utf-8")
                    return Fetched(path=str(kept), url=server)
            except EvidenceError as error:
                failure = _failed(server, error.message)
            except ToolError:
                self._given_up[server] = f"no answer within {self._limits.file_s:g} s"
                failure = _failed(server, self._given_up[server])
            except OSError as error:
                raise EvidenceError(
                    f"{folder} cannot be written: {error.strerror}", remedy="XDG_CACHE_HOME=/FOLDER"
                ) from error
        if failure is not None:
            raise failure
        return None

    def _download(self, url: str, kept: Path, build_id: str) -> bool:
        """Was it there? It is kept only if it is of the build that was asked for."""
        left_s = min(self._limits.file_s, self._limits.all_s - self._seconds)
        left = min(self._limits.file_bytes, self._limits.all_bytes - self._bytes)
        if left_s <= 0 or left <= 0:
            raise EvidenceError(
                f"{self._bytes / 1e6:,.0f} MB were fetched in {self._seconds:.0f} s: enough",
                remedy="run it again: what came is kept",
            )
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, part = tempfile.mkstemp(prefix=".part-", dir=kept.parent)
        os.close(handle)
        started_s = time.monotonic()
        try:
            answer = _run(url, part, left, min(self._limits.idle_s, left_s), left_s)
            if "error" in answer:
                raise EvidenceError(str(answer["error"]), remedy="is it the right address?")
            if answer.get("status") in _NOT_THERE:
                return False
            if answer.get("status") != 200:
                raise EvidenceError(
                    f"answered with HTTP status {answer.get('status')}",
                    remedy="is it the right address?",
                )
            if not self._is_of_build(part, build_id):
                raise EvidenceError(
                    f"sent something else than build {build_id}: it is not used",
                    remedy="ask another server",
                )
            os.replace(part, kept)  # noqa: PTH105 - str from mkstemp
            return True
        finally:
            self._seconds += time.monotonic() - started_s
            self._bytes += size_of(part) or size_of(str(kept))
            Path(part).unlink(missing_ok=True)


def _run(url: str, part: str, largest: int, idle_s: float, timeout_s: float) -> dict[str, object]:
    environment = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    done = run_program(
        [sys.executable, "-I", "-S", str(_FETCHER), url, part, str(largest), str(idle_s)],
        limits=Limits(timeout_s=timeout_s, output_bytes=1 << 16),
        environment=plain_environment(environment),
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"error": f"its reader ended with status {done.status}"}
    return answer if isinstance(answer, dict) else {}


def _failed(server: str, why: str) -> EvidenceError:
    return EvidenceError(f"debuginfod at {server}: {why}", remedy="ask another with --debuginfod")


def _first_line(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.readline(1024).strip()
    except OSError:
        return None
