"""Which installed package a system file is from, and which would bring its debug information."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_DPKG_LISTS: Final = Path("/var/lib/dpkg/info")
_KNOWN: Final = {"libc6": "libc6-dbg", "valgrind": "valgrind-dbg"}
DEBUG_FOLDER: Final = Path("/usr/lib/debug")


def debug_file(build_id: str | None) -> Path | None:
    """The separate debug information of a build, where gdb looks for it; None if not installed."""
    if not build_id or len(build_id) < 4:
        return None
    path = DEBUG_FOLDER / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    return path if path.exists() else None


def debug_package(path: str) -> str | None:
    """How to get debug information for a system file: a command, or None where nothing is known."""
    if not path.startswith(("/usr/", "/lib")):
        return None
    package = _dpkg_owner(path)
    if package is None:
        return "DEBUGINFOD_URLS from your distribution, then gdb by hand fetches it"
    name = _KNOWN.get(package, f"{package}-dbgsym")
    note = (
        "" if package in _KNOWN else "    # needs the distribution's debug archive in sources.list"
    )
    return f"apt-get install {name}{note}"


def wheel_of(path: str) -> str | None:
    """The wheel that a module in site-packages was installed from, by its RECORD."""
    folder = Path(path).parent
    for parent in (folder, *folder.parents):
        if parent.name in {"site-packages", "dist-packages"}:
            return _recorded_in(parent, path)
    return None


def _dpkg_owner(path: str) -> str | None:
    """Search dpkg's own file lists: asking dpkg-query costs a process and a tenth of a second."""
    merged = path.removeprefix("/usr") if path.startswith("/usr/lib") else f"/usr{path}"
    wanted = [f"\n{name}\n".encode("utf-8", "surrogateescape") for name in (path, merged)]
    try:
        lists = sorted(_DPKG_LISTS.glob("*.list"))
    except OSError:
        return None
    for entry in lists:
        try:
            text = entry.read_bytes()
        except OSError:
            continue
        if any(name in text for name in wanted):
            return entry.stem.split(":", 1)[0]
    return None


def _recorded_in(site: Path, path: str) -> str | None:
    relative = path[len(str(site)) + 1 :].encode("utf-8", "surrogateescape")
    for record in sorted(site.glob("*.dist-info/RECORD")):
        try:
            if relative in record.read_bytes():
                return record.parent.name.removesuffix(".dist-info")
        except OSError:
            continue
    return None
