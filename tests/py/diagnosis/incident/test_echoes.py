"""What is an echo of the first death, and what is the same death again, or another's own."""

import pytest
from tests.py.support.incidents import incident_of


def echoes(log: str) -> list[int]:
    return [echo.line for echo in incident_of(*log.splitlines()).echoes]


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        # a title, a sentence
        ("# Redis 4.0.9 crashed by signal 11\n\n"
         "[8761] 18 Apr 21:35:45 #     Redis 2.4.14 crashed by signal: 11", []),
        ("# Poolview freezes\n\nPoolview hangs for a few seconds when I open it.\n"
         "Then the whole desktop freezes when I run it.", []),
        # one parent, whose other child's end is its own
        ("distributed.nanny - WARNING - Worker process 22204 was killed by unknown signal\n"
         "distributed.nanny - WARNING - Worker process 22200 was killed by unknown signal", []),
        ("exited: pool_serve (exit status 1; not expected)\n"
         "exited: pool_board (exit status 1; not expected)", []),
        # a shell that starts it again
        ("/opt/run.sh: line 3: 4242 Segmentation fault      (core dumped) poold\n"
         "/opt/run.sh: line 3: 4250 Segmentation fault      (core dumped) poold", []),
        # another line of the same record
        ("# A fatal error has been detected by the Java Runtime Environment:\n#\n"
         "#  EXCEPTION_ACCESS_VIOLATION (0xc0000005) at pc=0x00000000555230fa, pid=4242, tid=12\n"
         "#\n\nsiginfo: ExceptionCode=0xc0000005, reading address 0x0000000000000140", []),
        # who noticed
        ("(Worker_TP1 pid=42) Fatal Python error: Segmentation fault\n"
         "(EngineCore pid=40) ERROR Worker proc VllmWorker-1 died unexpectedly", [2]),
        ("/opt/run.sh: line 3: 4242 Segmentation fault      (core dumped) poold\n"
         "Error: Process completed with exit code 139.", [2]),
    ],
)  # fmt: skip
def test_only_what_others_noticed_is_an_echo(log: str, lines: list[int]) -> None:
    assert echoes(f"{log}\n") == lines
