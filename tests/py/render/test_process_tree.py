"""Processes below the ones that started them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.py.render.test_incident_screens import OWN, joined, log_answer

from vllm_forensics.model.incident import IncidentProcess, ProcessRole
from vllm_forensics.render.clean import clean
from vllm_forensics.render.incident import render_incidents
from vllm_forensics.render.joined import render_joined
from vllm_forensics.render.process_tree import as_tree
from vllm_forensics.render.terminal import TerminalStyle

PIDS = st.one_of(st.none(), st.integers(1, 9))


def process(
    pid: int | None, parent: int | None = None, name: str = "p", end: str | None = None
) -> IncidentProcess:
    return IncidentProcess(
        pid=pid, name=name, role=ProcessRole.WORKER, parent=parent, last_seen=None, end=end
    )


def drawn(*processes: IncidentProcess) -> list[str]:
    return [f"{branch}{one.pid}" for branch, one in as_tree(processes)]


def log_screen(*processes: IncidentProcess) -> list[str]:
    answer = log_answer()
    [incident] = answer.incidents
    death = replace(incident.first_death, pid=processes[0].pid)
    told = replace(incident, first_death=death, processes=processes)
    text = render_incidents(clean(replace(answer, incidents=(told,))), TerminalStyle(width=100))
    lines = text.splitlines()
    at = lines.index("Processes")
    return lines[at + 1 : lines.index("", at)]


def test_children_stand_below_their_parent_in_their_order() -> None:
    tree = drawn(process(3, 2), process(1), process(2, 1), process(5, 2), process(4, 1))

    assert tree == ["1", "├ 2", "│ ├ 3", "│ └ 5", "└ 4"]


def test_a_parent_that_is_not_there_begins_a_tree() -> None:
    assert drawn(process(3, 2), process(9), process(4, 3)) == ["3", "└ 4", "9"]


def test_parents_in_a_circle_are_all_shown() -> None:
    assert drawn(process(1, 2), process(2, 1), process(3, 1), process(4, 4)) == [
        *("1", "└ 3"),
        "2",
        "4",
    ]


def test_a_number_counts_on_its_own_host() -> None:
    two = [process(1), process(2, 1), process(2, 1)]

    assert [branch for branch, _ in as_tree(two, ["a", "a", "b"])] == ["", "└ ", ""]


def test_no_depth_fills_the_line() -> None:
    chain = [process(pid, pid - 1) for pid in range(1, 200)]

    assert max(len(branch) for branch, _ in as_tree(chain)) <= 12


@given(kin=st.lists(st.tuples(PIDS, PIDS), max_size=12))
def test_every_process_is_there_once(kin: list[tuple[int | None, int | None]]) -> None:
    processes = [process(pid, parent, name=str(at)) for at, (pid, parent) in enumerate(kin)]

    found = [one for _, one in as_tree(processes)]

    assert sorted(one.name or "" for one in found) == sorted(one.name or "" for one in processes)


def test_the_screen_of_a_log_shows_who_started_whom_with_roles_and_marks_the_dead() -> None:
    shown = log_screen(
        process(42, 41, "Worker_TP0", end="killed by SIGSEGV"),
        process(43, 41, "Worker_TP1"),
        process(40, None, "APIServer"),
        process(41, 40, "EngineCore", end="exit 1"),
    )

    assert shown == [
        "    APIServer 40       worker",
        "    └ EngineCore 41    worker  exit 1",
        "  ✖   ├ Worker_TP0 42  worker  killed by SIGSEGV",
        "      └ Worker_TP1 43  worker",
    ]


def test_the_parents_of_the_dead_are_among_the_few_that_are_shown() -> None:
    crowd = [process(pid, None, f"w{pid}") for pid in range(100, 130)]

    shown = log_screen(process(42, 41), *crowd, process(41, 40), process(40))

    assert [line.strip(" ✖├└│").split()[1] for line in shown[-4:-1]] == ["40", "41", "42"]
    assert shown[-1] == "    and 21 more (--format json)"


def test_a_name_that_somebody_chose_draws_no_branch_of_its_own() -> None:
    shown = log_screen(process(42, 41, "a\n  ✖ └ fake 7\x1b[31m[bold]"), process(41))

    assert len(shown) == 2
    assert r"└ a\n  ✖ └ fake 7\x1b[31m[bold] 42" in shown[1]


def test_the_screen_of_a_report_shows_the_tree_too() -> None:
    report = joined()
    [incident] = report.incidents
    first, second = incident.processes[:2]
    processes = (replace(first, parent=second.pid), second, *incident.processes[2:])
    told = replace(report, incidents=(replace(incident, processes=processes),), processes=processes)

    text = render_joined(told, TerminalStyle(width=100), OWN)

    assert f"\n    {second.name} {second.pid}  engine-core" in text
    assert f"\n  ✖ └ {first.name} {first.pid}  worker" in text
    assert "\nProcesses\n" in text
