"""Lines by which a program ends itself: the level F of glog, klog, absl and TensorFlow."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass


@pytest.mark.parametrize(
    ("line", "file", "number"),
    [
        ("F0208 16:45:19.123456 12903 pool/take.cc:18] no block left", "pool/take.cc", 18),
        ("kubelet[77]: F1028 12:00:00.000001 77 server.go:33] cannot listen", "server.go", 33),
        (
            "2026-01-15 08:12:45.1: F tensorflow/core/pool.cc:9] bad: 3",
            "tensorflow/core/pool.cc",
            9,
        ),
        ("F0208 16:45:19.123456 12903 take.cc:18] Check failed: a == b (1 vs. 2)", "take.cc", 18),
    ],
)
def test_a_fatal_line_tells_the_place_that_gave_up(line: str, file: str, number: int) -> None:
    death = incident_of(line, "Aborted (core dumped)").first_death

    assert (death.cause.kind, death.cause.certainty) == (
        CauseClass.ABORT_EXCEPTION,
        Certainty.PROVED,
    )
    assert (death.file, death.line) == (file, number)


@pytest.mark.parametrize(
    "line",
    [
        "E0208 16:45:19.123456 12903 pool/take.cc:18] no block left",
        "I1028 12:00:00.000001 77 server.go:33] F1028 12:00:00.000001 77 is its name",
        "2026-01-15 08:12:45.1: W tensorflow/core/pool.cc:9] F tensorflow/ is the prefix",
        "/src/pool.cpp:12: Warning: Assertion 'n > 0' failed (non-fatal)",
        "NVRM: Xid (PCI:0000:65:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: row 7",
    ],
)
def test_what_is_not_fatal_ends_nothing(line: str) -> None:
    assert parse_incident_log([line.encode()]).clues == ()


def test_rays_record_of_an_actor_may_be_indented_by_blanks() -> None:
    death = incident_of(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "  class_name: make.<locals>.PoolActor",
        "  actor_id: 17f730ef04a3",
        "  pid: 16424",
    ).first_death

    assert (death.name, death.pid) == ("PoolActor", 16424)


@pytest.mark.parametrize(
    ("title", "name", "place"),
    [
        (
            "# Thread 'pool-worker' panicked at 'index 7 out of range' on a node",
            "pool-worker",
            None,
        ),
        ("# Segfault related to libpool-4.so", None, "libpool-4.so"),
        (
            "# Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x28 in tid 77 (Render),"
            " pid 42\n\n2021-06-29 15:15:57.938 13927-13927/? A/DEBUG:  #07 pc 0000000000001e00  "
            "/system/lib64/libdraw.so (draw::take(int)+12) (BuildId: 8d7aa90c)",
            None,
            "libdraw.so",
        ),
    ],
)
def test_a_title_that_is_the_runtimes_own_line(
    title: str, name: str | None, place: str | None
) -> None:
    death = incident_of(title).first_death

    assert death.cause.kind in {CauseClass.ABORT_EXCEPTION, CauseClass.NATIVE_FAULT}
    assert (death.name, death.module) == (name, place)
