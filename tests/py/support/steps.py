"""How much work a call is, whatever else the machine does."""

import sys
from collections.abc import Callable


def steps(work: Callable[[], object]) -> int:
    """Calls that the work makes: a measure of its time that no busy machine disturbs."""
    count = 0

    def tick(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
