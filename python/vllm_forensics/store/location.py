"""Where the store lies, and on what kind of file system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VARIABLE: Final = "VLLM_FORENSICS_CASES"
_NETWORK: Final = frozenset(
    (
        "nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "ceph", "lustre",
        "gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "9p", "virtiofs",
        "vboxsf", "prl_fs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse",
        "fuse.rclone", "fuse.juicefs", "fuse.ceph", "fuse.grpcfuse", "fuse.vmhgfs-fuse",
    )
)  # fmt: skip
"""Other machines may write there too, or it only passes memory maps on halfway: WAL needs memory
that all writers share (https://www.sqlite.org/wal.html, "same host computer")."""


def cases_path(environment: Mapping[str, str] = os.environ) -> Path:
    """VLLM_FORENSICS_CASES, else cases.sqlite in the user's data (XDG Base Directory, 0.8)."""
    chosen = environment.get(_VARIABLE)
    if chosen:
        return Path(chosen)
    data = environment.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path("~/.local/share").expanduser()
    return base / "vllm-forensics" / "cases.sqlite"


def is_on_network(path: Path) -> bool:
    """May other machines write to the file system that the path is on?"""
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return file_system_of(os.path.realpath(path), text) in _NETWORK


def file_system_of(path: str, mountinfo: str) -> str | None:
    """The type of the file system that holds an absolute path; None where no line covers it.

    `mountinfo` is /proc/self/mountinfo, proc(5): of several mounts the deepest counts, of one place
    the last.
    """
    best, kind = -1, None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        place = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        covers = path == place or path.startswith(place.rstrip("/") + "/")
        if covers and len(place) >= best:
            best, kind = len(place), kinds[0]
    return kind
