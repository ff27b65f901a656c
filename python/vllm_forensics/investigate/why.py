"""Finds the two crashes that are to be compared: cores, or signatures that the store knows."""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.core_sources import find_cores
from vllm_forensics.diagnosis.compared_parts import why_signatures
from vllm_forensics.diagnosis.crash_why import why_crashes, why_parts
from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.cases import list_cases
from vllm_forensics.investigate.triage import TriageOptions, triage_one
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.sanitizer_sieve import SIGNATURE
from vllm_forensics.model.sanitizer_why import Why, WhySide
from vllm_forensics.model.signature import SignaturePart

_REMEDY: Final = "forensics core --why A B, each a core or a signature"
_Side = tuple[WhySide, tuple[SignaturePart, ...], Crash | None]


def investigate_why(one: str, other: str, options: TriageOptions) -> Why:
    """Compare two crashes. Cores are read as deep as their signatures need.

    Raises:
        UsageError: one of the two is no core, or several.
        StoreError: a signature could not be looked up.

    """
    (side, parts, crash), (other_side, other_parts, other_crash) = (
        _side(asked, options) for asked in (one, other)
    )
    if crash is not None and other_crash is not None:
        return why_crashes((side, crash), (other_side, other_crash))
    if parts and other_parts:
        return why_parts((side, parts), (other_side, other_parts))
    unknown = other_side.signature if parts else side.signature
    return why_signatures(
        side, other_side, ask=f"{unknown} is in no store here; name a core of it instead."
    )


def _side(asked: str, options: TriageOptions) -> _Side:
    if SIGNATURE.fullmatch(asked) is not None:
        known = list_cases(asked).cases
        parts = known[0].parts if len(known) == 1 else ()
        return WhySide(asked=asked, signature=asked), parts, None
    cores = find_cores([asked])
    if len(cores) != 1:
        raise UsageError(f"{asked} holds {len(cores)} cores, and one is compared", remedy=_REMEDY)
    result = triage_one(cores[0], options, options.depth or Depth.STACK)
    if isinstance(result, Failure):
        raise UsageError(f"{asked} {result.error}", remedy=result.remedy or _REMEDY)
    side = WhySide(asked=asked, signature=result.signature, core=cores[0])
    return side, result.signature_parts, result
