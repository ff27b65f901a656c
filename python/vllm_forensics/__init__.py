"""Native crash forensics for C++ extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_forensics.capture.privacy import exclude, include

__all__ = ["__version__", "exclude", "include"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Load `exclude` and `include` when they are first asked for: most never ask."""
    if name not in {"exclude", "include"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm_forensics.capture import privacy

    return getattr(privacy, name)
