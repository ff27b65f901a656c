"""py-spy's dump of a living process, which tells who waits and of no death."""

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import SPY

DUMP = """\
Process 42: VLLM::EngineCore
Python v3.12.3 (/usr/bin/python3.12)

Thread 42 (active+gil): "MainThread"
    pthread_cond_wait (libc.so.6)
    ns::Pool::take (libpool.so)
    take (pool.py:12)
    <module> (serve.py:3)
Thread 43 (idle): "Thread-1"
    wait (threading.py:355)
"""


def test_the_main_thread_of_a_dump_is_read() -> None:
    (clue,) = parse_incident_log([DUMP.encode()]).clues

    assert (clue.source, clue.pid, clue.name) == (SPY, 42, "VLLM::EngineCore")
    assert [call.function for call in clue.python] == ["take", "<module>"]


def test_a_thread_without_python_and_a_dump_that_failed_are_nothing() -> None:
    text = 'Process 42: serve\nThread 42 (idle): "MainThread"\n    poll (libc.so.6)\n\nend\n'

    assert parse_incident_log([text.encode()]).clues == ()
    assert parse_incident_log([b"Pyspy failed to dump PID 42. Error: not found\n"]).clues == ()
