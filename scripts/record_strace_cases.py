"""Record the traces under tests/py/data/strace/ again, from real deaths under the real strace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.py.integration.traced_cases import CASES, DATA, built_victim, reason_to_skip, trace


def main() -> None:
    """Record what can be made here; what cannot is named and left as it was."""
    version = subprocess.run(("strace", "-V"), capture_output=True, text=True, check=True).stdout
    for case in CASES:
        reason = reason_to_skip(case)
        if reason is not None:
            print(f"{case.way}: left as it was, {reason}")
            continue
        with built_victim() as victim, TemporaryDirectory() as scratch:
            done = trace(case, victim, Path(scratch))
            report = json.loads((Path(scratch) / "report.json").read_text(encoding="utf-8"))
            folder = DATA / case.way
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(scratch) / "strace.log", folder / "input.log")
        expected = {
            "tool": version.splitlines()[0],
            "shm_free": 1 << 20 if case.outside else 1 << 30,
            "status": done.returncode,
            "findings": report["syscalls"],
            "processes": report["processes"],
        }
        text = json.dumps(expected, indent=2) + "\n"
        (folder / "expected.json").write_text(text, encoding="utf-8")
        print(f"{case.way}: {', '.join(found['kind'] for found in report['syscalls'])}")


if __name__ == "__main__":
    main()
