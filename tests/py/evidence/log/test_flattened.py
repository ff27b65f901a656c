"""Lines that a copy joined into one are parted again where each has a form of its own."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.flattened import unflattened, without_bar
from vllm_forensics.model.incident import CauseClass, ProcessRole

_TRACEBACK = (
    'Traceback (most recent call last): File "/opt/app/serve.py", line 12, in <module> main() '
    'File "/opt/app/pool.py", line 40, in take return self.blocks[i] '
    "IndexError: list index out of range"
)
_HEAD = "(EngineCore_DP0 pid=42) ERROR 11-08 11:01:29 [core.py:708] "


@pytest.mark.parametrize("before", ["", "I get this error: ", "2026-01-15 08:12:45 ERROR "])
def test_a_traceback_in_one_line_is_read_whole(before: str) -> None:
    death = incident_of(before + _TRACEBACK).first_death

    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert death.cause.detail == "IndexError: list index out of range"
    assert [frame.function for frame in death.frames] == ["take", "<module>"]


def test_the_second_of_two_chained_tracebacks_is_parted_from_the_first() -> None:
    parts = unflattened(
        (
            f"{_TRACEBACK} During handling of the above exception, another exception occurred: "
            f"{_TRACEBACK.replace('IndexError', 'ValueError')}"
        ).encode()
    )

    raised = [part.decode() for part in parts if b"list index" in part]
    assert raised == ["IndexError: list index out of range", "ValueError: list index out of range"]


def test_a_dump_of_faulthandlers_in_one_line_is_read_whole() -> None:
    death = incident_of(
        "Fatal Python error: Segmentation fault Current thread 0x00007f1be0001740 (most recent "
        'call first): File "/opt/app/pool.py", line 40 in take File "/opt/app/serve.py", line 12 '
        "in <module> Segmentation fault (core dumped)"
    ).first_death

    assert (death.signal, death.python_function) == ("SIGSEGV", "take")


def test_entries_of_a_log_in_one_line_are_parted_at_their_prefixes() -> None:
    death = incident_of(
        f"{_HEAD}EngineCore failed to start. {_HEAD}Traceback (most recent call last): "
        f'{_HEAD}File "/opt/vllm/v1/engine/core.py", line 699, in run_engine_core '
        f"{_HEAD}engine_core = EngineCoreProc(*args) "
        f'{_HEAD}File "/opt/vllm/v1/engine/core.py", line 498, in grow '
        f"{_HEAD}ValueError: no blocks left"
    ).first_death

    assert (death.pid, death.role) == (42, ProcessRole.ENGINE_CORE)
    assert (death.cause.detail, death.python_function) == ("ValueError: no blocks left", "grow")


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore_0 pid=42) (VllmWorker TP0 pid=43) INFO 08-25 11:01:23 [loader.py:267] Loading "
        "the weights took 1.13 seconds on every one of the devices",
        'The line File "/opt/app/pool.py", line 40, in take stands in the middle of a sentence '
        "that is long enough",
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f1be0001234 in "
        "/opt/torch/lib/libc10.so)",
    ],
)
def test_a_line_of_one_writer_stays_whole(line: str) -> None:
    assert unflattened(line.encode()) == [line.encode()]


def test_frames_of_c10_in_one_line_are_parted() -> None:
    frame = "frame #{}: ns::f() + 0x57 (0x7f1be0001234 in /opt/lib/libx.so)"

    parts = unflattened(" ".join(map(frame.format, range(3))).encode())

    assert [part[:8] for part in parts] == [b"frame #0", b"frame #1", b"frame #2"]


def test_a_line_whose_part_is_as_long_as_itself_is_parted_once() -> None:
    """Two frames in one line, and nothing before them: parting it again and again never ended."""
    line = f'  File "/{"a" * 90}.py", line 1, in fValueError: x     x = y File "'

    assert line.encode() in unflattened(line.encode())
    assert incident_of(f"Segmentation fault (core dumped)\n{line}\n").first_death is not None


_BAR = "Processed prompts:   0%|          | 0/4 [00:00<?, ?it/s, est. speed: 0.00 toks/s]"
_SHARDS = "Loading shards:  50% Completed | 2/4 [00:01<00:01,  1.52it/s]"
_HALF = "Rendering:  50%|█████     | 2.1k/4.2k [1:00:02<00:02, 2.02s/it, 5 B/s]"


@pytest.mark.parametrize("bar", [_BAR, _SHARDS, _HALF, f"{_BAR}\r{_SHARDS}"])
def test_what_is_written_behind_a_progress_bar_begins_a_line(bar: str) -> None:
    death = incident_of(
        f"{bar}!!!!!!! Segfault encountered !!!!!!!",
        '  File "/src/pool.hpp", line 305, in store(long)',
    ).first_death

    assert [one.text for one in death.evidence] == ["!!!!!!! Segfault encountered !!!!!!!"]


def test_whose_line_it_is_behind_a_progress_bar_is_told_by_its_prefix() -> None:
    death = incident_of(f"{_BAR}(Worker pid=42) Fatal Python error: Segmentation fault").first_death

    assert (death.pid, death.role) == (42, ProcessRole.WORKER)


@pytest.mark.parametrize(
    "line",
    [
        _BAR,
        f"{_BAR} ",
        f"{_BAR}\r",
        "(Worker pid=42) " + _SHARDS + "Aborted",
        "the bar 2/4 [00:01<00:01, 1.52it/s] stood still, then it died",
    ],
)
def test_a_bar_alone_or_behind_a_prefix_stays_as_it_is(line: str) -> None:
    assert without_bar(line.encode()) == line.encode()
