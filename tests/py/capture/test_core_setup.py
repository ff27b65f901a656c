"""Setting up and putting back, on stand-ins for the kernel's files."""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from vllm_forensics.capture import core_setup
from vllm_forensics.capture.core_setup import PATTERN_BYTES, restore, set_up
from vllm_forensics.errors import ToolError, UsageError


class Machine:
    """A core_pattern, a state file and a core folder that may be played with."""

    def __init__(self, root: Path) -> None:
        self.pattern_file = root / "core_pattern"
        self.state_file = root / "lib" / "setup.json"
        self.folder = root / "cores"
        self.pattern_file.write_text("core\n", encoding="utf-8")

    @property
    def pattern(self) -> str:
        return self.pattern_file.read_text(encoding="utf-8").rstrip("\n")

    def own(self, name: str = "core.%p") -> str:
        return f"{self.folder}/{name}"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    # A short path: the pattern has to fit into 127 bytes.
    made = Machine(Path(tempfile.mkdtemp(dir=tmp_path.parent.parent)))
    monkeypatch.setattr(core_setup, "CORE_PATTERN", made.pattern_file)
    monkeypatch.setattr(core_setup, "STATE_FILE", made.state_file)
    monkeypatch.setattr(core_setup, "CORE_FOLDER", made.folder)
    return made


def rights(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize(
    "pattern", ["", "|/usr/bin/true", "a\nb", "a\0b", "x" * (PATTERN_BYTES + 1)]
)
def test_a_pattern_that_the_kernel_would_not_use_is_refused(machine: Machine, pattern: str) -> None:
    with pytest.raises(UsageError, match="no usable file pattern"):
        set_up(pattern, None)

    assert machine.pattern == "core"
    assert not machine.state_file.exists()


def test_a_pattern_is_measured_in_bytes(machine: Machine) -> None:
    set_up("é" * 63, None)
    with pytest.raises(UsageError):
        set_up("é" * 64, None)

    assert machine.pattern == "é" * 63


def test_setup_makes_a_folder_where_all_may_write_and_none_may_look(machine: Machine) -> None:
    changes = set_up(machine.own(), None)

    assert rights(machine.folder) == 0o1733
    assert machine.pattern == machine.own()
    assert [(change.name, change.before, change.after) for change in changes] == [
        (str(machine.folder), "not there", "0o1733"),
        ("core_pattern", "core", machine.own()),
    ]


def test_own_folder_gets_its_rights_back(machine: Machine) -> None:
    machine.folder.mkdir(mode=0o700)

    changes = set_up(machine.own(), None)

    assert rights(machine.folder) == 0o1733
    assert (changes[0].before, changes[0].after) == ("0o700", "0o1733")


def test_somebody_elses_folder_keeps_its_rights(machine: Machine) -> None:
    folder = machine.folder.parent / "theirs"
    folder.mkdir(mode=0o750)

    changes = set_up(f"{folder}/core.%p", None)

    assert rights(folder) == 0o750
    assert [change.name for change in changes] == ["core_pattern"]


def test_a_link_in_place_of_the_folder_is_refused(machine: Machine, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    machine.folder.symlink_to(target)

    with pytest.raises(ToolError, match="is a link"):
        set_up(machine.own(), None)

    assert rights(target) == 0o700
    assert machine.pattern == "core"


def test_a_file_in_place_of_the_folder_is_refused(machine: Machine) -> None:
    machine.folder.write_text("")

    with pytest.raises(ToolError, match="nothing was changed"):
        set_up(machine.own(), None)

    assert machine.pattern == "core"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_folder_that_another_user_made_first_is_refused(machine: Machine) -> None:
    machine.folder.mkdir(mode=0o777)
    os.chown(machine.folder, 65534, 65534)

    with pytest.raises(ToolError, match="belongs to user 65534"):
        set_up(machine.own(), None)

    assert machine.pattern == "core"


def test_restore_puts_back_the_first_pattern_after_two_setups(machine: Machine) -> None:
    set_up(machine.own("first.%p"), None)
    set_up(machine.own("second.%p"), None)

    [change] = restore()

    assert machine.pattern == "core"
    assert (change.before, change.after) == (machine.own("second.%p"), "core")
    with pytest.raises(ToolError, match="nothing was set up"):
        restore()


def test_restore_leaves_a_pattern_that_somebody_else_set(machine: Machine) -> None:
    set_up(machine.own(), None)
    machine.pattern_file.write_text("/elsewhere/core\n", encoding="utf-8")

    with pytest.raises(ToolError, match="somebody else changed it") as raised:
        restore()

    assert machine.pattern == "/elsewhere/core"
    assert "kernel.core_pattern=core" in raised.value.remedy


def test_setup_after_a_foreign_change_keeps_the_foreign_pattern(machine: Machine) -> None:
    set_up(machine.own(), None)
    machine.pattern_file.write_text("foreign\n", encoding="utf-8")

    set_up(machine.own("new.%p"), None)
    restore()

    assert machine.pattern == "foreign"


@pytest.mark.parametrize("already", [False, True])
def test_a_setup_that_was_killed_before_the_pattern_can_be_put_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, already: bool
) -> None:
    if already:
        set_up(machine.own("before.%p"), None)

    def die(pattern: str) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as patch:
        patch.setattr(core_setup, "_write_pattern", die)
        with pytest.raises(SystemExit):
            set_up(machine.own(), None)
    restore()

    assert machine.pattern == "core"
    assert not machine.state_file.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"previous": 1}', '{"previous": "a", "ours": []}']
)
def test_a_damaged_state_file_is_no_state(machine: Machine, text: str) -> None:
    machine.state_file.parent.mkdir()
    machine.state_file.write_text(text, encoding="utf-8")

    with pytest.raises(ToolError, match="nothing was set up"):
        restore()


def test_the_state_is_written_before_the_pattern(machine: Machine) -> None:
    machine.state_file.parent.write_text("in the way")

    with pytest.raises(ToolError, match="nothing was changed"):
        set_up("core.%p", None)

    assert machine.pattern == "core"


def test_the_state_names_both_patterns(machine: Machine) -> None:
    set_up(machine.own(), None)

    state = json.loads(machine.state_file.read_text(encoding="utf-8"))

    assert state == {"previous": "core", "ours": [machine.own()], "shells": []}
