"""Who changes how deaths are told shows how it looks; who saw one says so, or what he typed."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Clue, ClueKind

FENCE = "```\n"
KILLED = "Memory cgroup out of memory: Killed process 4015 (poold) total-vm:32812kB, anon-rss:9kB\n"
FAULT = "poold: child 4242 (take) was killed by signal 11 (Segmentation fault)\n"
STATUS = "Last State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n"


def clues_in(text: str) -> tuple[Clue, ...]:
    return parse_incident_log([text.encode()]).clues


def shown(title: str, above: str, block: str) -> str:
    return f"{title}\n\nsomebody · description · 2024-03-01\n{above}\n\n{FENCE}{block}{FENCE}\n"


@pytest.mark.parametrize(
    "text",
    [
        shown(
            "acme/pool · pull request #7 · merged · C\n# Print the signal that a child died of",
            "The log reads, if a child was killed by a signal:",
            FAULT,
        ),
        shown(
            "acme/pool · pull request #7 · merged · C\n# Add a signal handler with a backtrace",
            "With this change one gets:",
            "poold caught signal SIGSEGV\nSegmentation fault (core dumped)\n",
        ),
        shown(
            "acme/pool · issue #8 · open · C\nlabels: kind/feature\n# Show the termination reason",
            "I would like to see in the list what describe prints of it.",
            STATUS,
        ),
        "# feat(dmesg): add regex for the memory of containers\n\ne.g.,\n\n> kernel: " + KILLED,
        shown(
            "acme/watch · issue #9 · open · Go\n# Watcher doesn't notice kills of new kernels",
            "Sample kill message from `5.4`:",
            KILLED,
        ),
        shown(
            "acme/pool · issue #9 · open · C\n# Differences between the outputs of two sanitizers",
            "They should look alike.",
            "Sample output of one:\n\n==4242==ERROR: AddressSanitizer: heap-buffer-overflow\n",
        ),
        shown(
            "acme/pool · issue #9 · open · C\nlabels: enhancement\n# Shell won't show core dumps",
            "In another shell the message is there.",
            "zsh: segmentation fault (core dumped)  ./poold\n",
        ),
    ],
)
def test_nobody_died_in_what_shows_how_a_death_is_told(text: str) -> None:
    assert {clue.kind for clue in clues_in(text)} <= {ClueKind.MENTION}


@pytest.mark.parametrize(
    "text",
    [
        shown(
            "acme/pool · issue #7 · open · C\n# Print the signal that a child died of",
            "Recent example:",
            FAULT,
        ),
        shown(
            "acme/pool · pull request #7 · merged · C\n# Add logs for workers that end",
            "To test it:",
            f"$ poold --eat-memory\n{KILLED}",
        ),
        shown("acme/pool · issue #7 · open · C\n# Fix crash in log rotation", "It says:", FAULT),
        shown("acme/pool · pull request #7 · open · C\n# Fix core dump on stop", "The log:", FAULT),
        shown("acme/pool · issue #7 · open · C\n# Log parser crashes with two files", "So:", FAULT),
        shown("acme/pool · issue #7 · open · C\n# Report segfaults in take", "We saw this:", FAULT),
    ],
)
def test_what_was_seen_is_heard_whatever_the_title_is_about(text: str) -> None:
    assert any(clue.kind is not ClueKind.MENTION for clue in clues_in(text))


@pytest.mark.parametrize("title", ["# Add a limit of memory", "# Document testing requirements"])
def test_a_record_that_a_wish_quotes_proves_nothing(title: str) -> None:
    reading = parse_incident_log([shown(title, "The full run:", KILLED).encode()])

    (incident,) = explain_incidents(reading, "x")

    assert incident.first_death.name == "poold"
    assert incident.first_death.cause.certainty is Certainty.LIKELY


def test_a_record_that_a_report_quotes_proves_it() -> None:
    reading = parse_incident_log([shown("# Add node fails with 137", "So:", KILLED).encode()])

    (incident,) = explain_incidents(reading, "x")

    assert incident.first_death.cause.certainty is Certainty.PROVED
