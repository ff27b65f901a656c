"""Where the store lies."""

from pathlib import Path

import pytest

from vllm_forensics.store.location import cases_path, file_system_of, is_on_network

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:27 / /home/me/local\\040disk rw - xfs /dev/vdb rw
32 22 0:28 / /homes rw - ext4 /dev/vdc rw
33 22 0:29 / /both rw - ext4 /dev/vdd rw
34 22 0:30 / /both rw - fuse.sshfs me@host: rw
garbage
35 22 0:31
"""


def test_it_lies_where_the_variable_says() -> None:
    assert cases_path({"VLLM_FORENSICS_CASES": "/d/c.sqlite"}) == Path("/d/c.sqlite")


def test_else_with_the_users_data() -> None:
    wanted = Path("/data/vllm-forensics/cases.sqlite")
    home = Path("~/.local/share/vllm-forensics/cases.sqlite").expanduser()

    assert cases_path({"XDG_DATA_HOME": "/data"}) == wanted
    assert cases_path({"XDG_DATA_HOME": "relative"}) == home
    assert cases_path({}) == home


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/a", "ext4"),
        ("/home/me/a", "nfs4"),
        ("/home", "nfs4"),
        ("/homes/me", "ext4"),
        ("/home/me/local disk/a", "xfs"),
        ("/both/a", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_last_mount_counts(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


def test_nothing_is_known_without_mounts() -> None:
    assert file_system_of("/a", "") is None


def test_a_temporary_folder_is_not_on_the_network(tmp_path: Path) -> None:
    assert not is_on_network(tmp_path / "cases.sqlite")
