"""An existing Dask cluster as an executor: the cores of a fleet are read where there are hands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from vllm_forensics.errors import ToolError

if TYPE_CHECKING:
    from concurrent.futures import Executor

_PATIENCE_S: Final = 10


@contextlib.contextmanager
def cluster(address: str | None) -> Iterator[Executor | None]:
    """The cluster's executor, or None without an address. Its workers need this package too.

    Raises:
        ToolError: `distributed` is missing, or nobody answers at the address.

    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ToolError(
            "Dask is not installed", remedy="pip install 'vllm-forensics[fleet]'"
        ) from error
    try:
        client: Any = Client(address, timeout=_PATIENCE_S)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise ToolError(
            f"no Dask scheduler answers at {address}: {error}",
            remedy="dask scheduler, and dask worker ADDRESS on each machine",
        ) from error
    with client:
        # A worker that dies loses nothing: what it had is done again by another. Results are not
        # pure: each core is read once.
        yield cast("Executor", client.get_executor(pure=False, retries=3))
