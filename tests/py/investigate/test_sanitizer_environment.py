"""The user's options win; what that costs is said."""

from pathlib import Path

import pytest

from vllm_forensics.capture.sanitizer_options import parse_options
from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sanitizer_environment import choose_options

REPORTS = Path("/srv/my run/sanitizer")


def options_of(variable: str, text: str) -> dict[str, str]:
    chosen = choose_options({variable: text}, REPORTS, "asan")
    return parse_options(dict(chosen.variables)[variable])


def test_a_report_goes_to_a_file_aborts_and_leaves_a_core() -> None:
    options = options_of("ASAN_OPTIONS", "")

    assert options == {
        "detect_leaks": "0",
        "abort_on_error": "1",
        "disable_coredump": "0",
        "handle_segv": "2",
        "allocator_may_return_null": "1",
        "exitcode": "86",
        "log_path": "/srv/my run/sanitizer",
    }


def test_the_users_options_win_and_others_of_theirs_are_kept() -> None:
    options = options_of("ASAN_OPTIONS", "handle_segv=0:quarantine_size_mb=64")

    assert (options["handle_segv"], options["quarantine_size_mb"]) == ("0", "64")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("abort_on_error=0", "leaves no core"),
        ("log_path=stderr", "log_path was set to a file"),
        ("log_path=/elsewhere/asan", "/elsewhere/asan.PID"),
        ("detect_leaks=1", "no minicore"),
    ],
)
def test_a_wish_that_costs_evidence_is_granted_and_said(text: str, words: str) -> None:
    [note] = choose_options({"ASAN_OPTIONS": text}, REPORTS, "asan").notes

    assert words in note


def test_reports_are_read_where_the_user_wants_them() -> None:
    chosen = choose_options({"TSAN_OPTIONS": "log_path=/elsewhere/t"}, REPORTS, "tsan")

    assert chosen.reports == "/elsewhere/t"
    assert all(parse_options(text)["log_path"] == "/elsewhere/t" for _, text in chosen.variables)


@pytest.mark.parametrize(("flavour", "supervised"), [("asan", False), ("tsan", True)])
def test_a_search_for_leaks_and_a_tracer_exclude_each_other(
    flavour: str, *, supervised: bool
) -> None:
    chosen = choose_options({"ASAN_OPTIONS": "detect_leaks=1"}, REPORTS, flavour)

    assert chosen.supervised is supervised


def test_an_option_that_hides_a_fault_is_refused() -> None:
    with pytest.raises(UsageError, match="came too late"):
        choose_options({"ASAN_OPTIONS": "verify_asan_link_order=0"}, REPORTS, "asan")
