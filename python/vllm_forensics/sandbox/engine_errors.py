"""Whose error it is: the engine's, which is a result, or ours, which must never be told as one."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vllm_forensics.errors import ForensicsError

_OWN_FOLDER: Final = __file__.rpartition("/")[0] + "/"
OWN_ENGINE: Final = ("/reference.py", "/reference_pool.py", "/planted.py")
"""Its errors are results, as vLLM's are."""
ENGINE_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What code that is not ours raises; an `UnmodelledError` is none of them and ends the program."""


class EngineError(Exception):
    """The engine raised; its own error is the cause."""


@contextmanager
def engine_speaks() -> Iterator[None]:
    """What is raised inside of the block is the engine's, and a result."""
    try:
        yield
    except ENGINE_ERRORS as error:
        if _is_ours(error):
            raise not_followed(error) from error
        raise EngineError from error


def _is_ours(error: BaseException) -> bool:
    """Whether our own wrappers raised: that must never be told as a fault of vLLM."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename if frames else ""
    return last.startswith(_OWN_FOLDER) and not last.endswith(OWN_ENGINE)


def not_followed(error: BaseException) -> ForensicsError:
    """What is told where we, and not the engine, failed."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    where = f"{short_path(frame.filename)}:{frame.lineno}"
    return ForensicsError(
        f"the sandbox cannot follow this vLLM: {text} ({where})",
        remedy="try a version that is known to work, 0.32.0 or 0.4.2, and report this line",
    )


def short_path(file: str) -> str:
    """The part of a path from the package on."""
    cut = max(file.rfind("/vllm/"), file.rfind("/vllm_forensics/"))
    return file[cut + 1 :]
