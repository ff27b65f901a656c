"""Texts that hold no log: what a title and two sentences tell, and what they do not."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass


def test_a_title_alone_tells_likely_what_where_and_who() -> None:
    death = incident_of("# serve segfaults in libpool.so (pid 4242)").first_death

    assert (death.name, death.pid, death.module) == ("serve", 4242, "libpool.so")
    assert death.signal == "SIGSEGV"
    assert death.cause.kind is CauseClass.NATIVE_FAULT
    assert death.cause.certainty is Certainty.LIKELY


def test_a_crash_of_which_nobody_says_more_has_no_cause() -> None:
    death = incident_of("# python crash when importing pool", "", "Any idea?").first_death

    assert death.name == "python"
    assert death.cause.kind is CauseClass.UNKNOWN


def test_title_and_sentence_are_heard_together() -> None:
    death = incident_of("# Random bus error", "", "The program ./build/serve dies.").first_death

    assert (death.name, death.signal) == ("serve", "SIGBUS")


def test_the_subject_of_a_mail_is_a_title() -> None:
    death = incident_of("Subject: vLLM dies with SIGILL on the old node", "", "Hello!").first_death

    assert (death.name, death.signal) == ("vLLM", "SIGILL")


def test_a_trackers_page_has_its_title_above_its_number() -> None:
    page = ("- changed status", "Pool crashes with a faulty disk", "Issue #42", "open")

    assert incident_of(*page).first_death.name == "Pool"


def test_a_mistyped_death_is_one() -> None:
    death = incident_of("# Need help", "", "segmentarion fault(core dumped)").first_death

    assert death.signal == "SIGSEGV"


def test_a_glossary_does_not_take_back_what_was_stated() -> None:
    death = incident_of(
        "# container exited with code 139",
        "",
        "i'm using this image since May and now it stops.",
        "Exit code 139 indicates that a process received SIGSEGV.",
        "This occurs when a program reads what it may not.",
    ).first_death

    assert death.signal == "SIGSEGV"


def test_who_wishes_for_more_and_says_what_happens_to_his_own_is_believed() -> None:
    death = incident_of("# Return a status for this", "", "My server gets killed here.").first_death

    assert death.signal == "SIGKILL"


@pytest.mark.parametrize(
    "lines",
    [
        ("# Bus error", "", "A bus error is raised when memory is not aligned."),
        ("# Fix segfault in take()", "", "The program crashed when the pool was empty."),
        ("# Segfault on exit", "", "This PR frees the pool before the logger."),
        ("# Restart the worker on a crash", "", "It would be of help with flaky nodes."),
        ("# a handler for SIGSEGV", "", "I want to print the stack when a SIGSEGV happens."),
        ("# Segfault", "", "Fixes #12"),
        ("# double free / heap corruption spotter", "", "It keeps each address that was freed."),
        ("# A guard's choices", "", "The guard killed some processes of the group."),
        ("# serve 1.4", "", "### Stability and Crashes", "It starts sooner."),
        ("# Trap signals", "", "* include SIGSEGV in the signals that are trapped"),
        ("# Extend the kill messages", "", 'The words "exitCode=137" are all that there is.'),
    ],
)
def test_in_a_change_a_wish_and_a_lesson_nobody_died(lines: tuple[str, ...]) -> None:
    assert not incidents_of(*lines)


def test_quoted_words_are_whole() -> None:
    before = "The quick service that answers all of our many customers and their orders on Monday"
    detail = incident_of(
        f"# {before} segfaults in take() {'again and ' * 20}again"
    ).first_death.cause.detail

    quoted = detail.split(" says: ")[1]
    assert quoted.startswith("…")
    assert quoted.endswith("…")
    assert set(quoted.strip("…").split()) <= set(f"{before} segfaults in take() again and".split())


@pytest.mark.parametrize("what", ["Inference", "Generation", "Deployment"])
def test_what_is_done_is_not_who_died(what: str) -> None:
    death = incident_of(f"# {what} crashes after some time", "", "It happens daily.").first_death

    assert death.name is None


def test_a_status_that_somebody_tells_is_not_proved() -> None:
    told = incident_of(
        "It ran for a minute and the IDE said the program exited with code -1073740791"
    )

    assert told.first_death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert told.first_death.cause.certainty is Certainty.LIKELY


def test_a_signal_is_not_said_to_stand_in_a_title_that_names_none() -> None:
    death = incident_of(
        "# Version 11 terminates unexpectedly",
        "",
        "Same here - we get `terminated by signal 11: Segmentation fault` when we load data.",
    ).first_death

    assert death.signal == "SIGSEGV"
    assert "unexpectedly" not in death.cause.detail


def test_a_typed_kill_does_not_silence_who_tells_of_a_hang() -> None:
    death = incident_of(
        "# My server",
        "",
        "I have it for a week now, and I tried it with threads.",
        "As soon as it is loaded, poolserver hangs. The only option is to kill -9.",
    ).first_death

    assert (death.name, death.cause.kind) == ("poolserver", CauseClass.HANG)


def test_what_stops_by_itself_is_a_server_and_no_video() -> None:
    assert incidents_of("# Pool container always stops", "", "Nothing is in the log.")
    assert not incidents_of("# The video always stops", "", "Nothing is in the log.")


def test_zshs_word_of_a_death_whose_beginning_was_cut_off() -> None:
    death = incident_of("# 3137 illegal hardware instruction (core dumped) python").first_death

    assert (death.name, death.signal) == ("python", "SIGILL")


def test_gos_stack_of_its_own_that_was_used_up() -> None:
    assert incident_of("fatal: morestack on g0").first_death.cause.kind is (
        CauseClass.ABORT_EXCEPTION
    )


def test_what_came_after_an_update_was_seen_whatever_is_wished() -> None:
    wish = "# Update required"

    assert incidents_of(wish, "", "After the last update, the pool server crashes when it starts.")
    assert not incidents_of(wish, "", "It should say which server crashes when it starts.")


def test_what_a_lesson_lets_its_reader_say_nobody_said() -> None:
    lesson = (
        "Stacks that overflow, and how to mend what crashes",
        "",
        "Why does it happen: you have infinite recursion, or huge arrays on the stack.",
        "It often shows up as a fault, and you should compare it with others.",
        "",
    )

    assert not incidents_of(*lesson, "\u201cSegfault but I\u2019m not using pointers\u201d", "")
    assert incidents_of("Segfault but I\u2019m not using pointers, please help me", "")


def test_whoever_speaks_of_somebodys_change_reports() -> None:
    title = "# Investigate what fails"

    assert incidents_of(
        title, "", "I\u2019ve seen a few segfaults. They are not of what the PR changes."
    )
    assert not incidents_of(title, "", "The PR handles a few segfaults that I\u2019ve seen.")


def test_systemds_status_tells_that_its_watchdog_ended_it() -> None:
    death = incident_of(
        "\u00d7 poold.service - Pool daemon",
        "     Active: failed (Result: watchdog) since Fri 2026-01-15 00:33:40 EDT; 4min 17s ago",
        "    Process: 1237 ExecStart=/usr/local/bin/poold (code=dumped, signal=ABRT)",
        "   Main PID: 1237 (code=dumped, signal=ABRT)",
    ).first_death

    assert (death.name, death.pid, death.cause.kind) == ("poold", 1237, CauseClass.HANG)


def test_an_unhandled_exception_in_a_library_is_told_with_it() -> None:
    death = incident_of(
        "# Unhandled exception in pool-threads.dll", "", "Poolview crashes nine out of ten times."
    ).first_death

    assert (death.name, death.module) == ("Poolview", "pool-threads.dll")
    record = (
        "Unhandled exception: c0000005 Date/Time: 2026-01-15, 15:33:08 "
        "Fault address: 7FF91BF45303 (c:\\pool\\plugins\\take.dll) libpool version: 32.0.2"
    )
    assert incident_of(record).first_death.module == "take.dll"
