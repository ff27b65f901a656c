"""When a program counts as stalled, with a clock and measurements of the test's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_forensics.capture.stall import Measures, StallOptions, StallWatch
from vllm_forensics.errors import EvidenceError


@dataclass
class World:
    """A program that the test moves."""

    now: float = 100.0
    pids: list[int] = field(default_factory=lambda: [7])
    cpu: float = 50.0
    written: int = 1000
    answers: bool = True
    asked: list[float] = field(default_factory=list)
    gone: bool = False

    def tree(self, root: int) -> Sequence[int]:
        if self.gone:
            raise EvidenceError("it is gone", remedy="none")
        return self.pids

    def ask(self, probe: Sequence[str], limit: float) -> bool:
        assert tuple(probe) == ("curl", "localhost")
        self.asked.append(self.now)
        return self.answers

    def watch(self, seconds: float, *probe: str) -> StallWatch:
        measures = Measures(
            clock=lambda: self.now,
            tree=self.tree,
            cpu=lambda pids: self.cpu,
            written=lambda pids: self.written,
            answers=self.ask,
        )
        return StallWatch(StallOptions(seconds=seconds, probe=probe), measures)

    def step(
        self, watch: StallWatch, count: int, *, cpu: float = 0.0, written: int = 0
    ) -> list[tuple[float, str]]:
        """So many seconds, with what the program does in each; what is told, and when."""
        told = []
        for _ in range(count):
            self.now += 1
            self.cpu += cpu
            self.written += written
            stall = watch.look(7)
            if stall is not None:
                told.append((self.now, stall.reason))
        return told


def test_a_program_that_gets_on_is_left_alone() -> None:
    world = World()

    assert world.step(world.watch(3), 60, cpu=0.5, written=10) == []


def test_no_processor_time_is_told_once() -> None:
    world = World()

    told = world.step(world.watch(3), 60, written=10)

    assert told == [(104.0, "no processor time for 3 s")]


def test_heartbeats_count_as_nothing() -> None:
    world = World()

    assert world.step(world.watch(5), 30, cpu=0.005, written=1)[0][1].startswith("no processor")


def test_no_output_is_told_of_a_busy_program() -> None:
    world = World()

    assert world.step(world.watch(3), 60, cpu=1.0) == [(104.0, "no output for 3 s")]


def test_when_output_resumes_the_next_stall_is_told_again() -> None:
    world = World()
    watch = world.watch(3)

    first = world.step(watch, 10, cpu=1.0)
    between = world.step(watch, 5, cpu=1.0, written=80)
    second = world.step(watch, 10, cpu=1.0)

    assert [len(first), len(between), len(second)] == [1, 0, 1]


def test_a_child_that_ends_takes_its_numbers_along_and_is_no_stall() -> None:
    world = World(pids=[7, 8], cpu=500.0, written=90_000)
    watch = world.watch(3)
    world.step(watch, 2, cpu=1.0, written=10)

    world.pids, world.cpu, world.written = [7], 20.0, 400

    assert world.step(watch, 30, cpu=0.5, written=10) == []


def test_a_probe_is_asked_as_often_as_the_limit_says() -> None:
    world = World()

    world.step(world.watch(5, "curl", "localhost"), 20, cpu=1.0, written=1)

    assert world.asked == [105.0, 110.0, 115.0, 120.0]


def test_a_probe_that_fails_is_told_once_an_episode() -> None:
    world = World(answers=False)
    watch = world.watch(5, "curl", "localhost")

    failing = world.step(watch, 20, cpu=1.0, written=1)
    world.answers = True
    fine = world.step(watch, 10, cpu=1.0, written=1)
    world.answers = False
    again = world.step(watch, 10, cpu=1.0, written=1)

    assert failing == [(105.0, "the probe curl failed")]
    assert fine == []
    assert [reason for _, reason in again] == ["the probe curl failed"]


def test_a_program_that_is_gone_does_not_stall() -> None:
    world = World(gone=True)

    assert world.step(world.watch(1), 10) == []


def test_the_real_measures_answer_for_this_process() -> None:
    watch = StallWatch(StallOptions(seconds=60, probe=("false",)))

    assert watch.look(1) is None
