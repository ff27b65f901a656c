"""Records what a real gdb answers: `python -m tests.py.support.gdb_mi_recorder` writes it down."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.evidence.gdb_mi import parse_records

FOLDER: Final = Path(__file__).parents[1] / "data" / "gdb_mi"
_FRAMES: Final = "-stack-list-frames 0 16"
_VARIABLES: Final = "-stack-list-variables --thread 1 --frame 0 --all-values"
_SETUP: Final = ("-gdb-set startup-with-shell off", "-gdb-set print frame-arguments all")

# Each case: a program, where it stops, and the questions.
CASES: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "templates": (
        """
        #include <cstddef>
        namespace vllm {
        template <typename T> struct Cache {
          T rows[2] = {};
          __attribute__((noinline)) T at(std::size_t row) const { return rows[row]; }
        };
        template <typename T> __attribute__((noinline)) T run(const Cache<T>& cache) {
          auto get = [&](std::size_t row) { return cache.at(row); };
          return get(1);
        }
        }
        int main() { vllm::Cache<int> cache; return vllm::run<int>(cache); }
        """,
        "vllm::Cache<int>::at",
        (_FRAMES, _VARIABLES, "-data-evaluate-expression nothing", "-thread-info"),
    ),
    "handler": (
        """
        #include <csignal>
        namespace { volatile int seen; void on_signal(int number) { seen = number; } }
        int main() { std::signal(SIGUSR1, on_signal); std::raise(SIGUSR1); return 0; }
        """,
        "on_signal",
        (_FRAMES, _VARIABLES),
    ),
    "shadowed": (
        """
        #include <cstdio>
        int main(int count, char**) {
          for (int value = 7; value < 8; ++value) {
            int count = value * 6;
            std::printf("%d", count);
          }
          return count;
        }
        """,
        "printf",
        ("-stack-list-variables --thread 1 --frame 1 --all-values", _FRAMES),
    ),
}


def record(name: str) -> dict[str, list[str]]:
    """Every question of a case with the lines of gdb's answer."""
    source, stop, questions = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, name)
        Path(folder, "case.cpp").write_text(source, encoding="utf-8")
        subprocess.run(["g++", "-g", "-O0", "-o", str(program), "case.cpp"], cwd=folder, check=True)
        with GdbSession(timeout_s=30) as gdb:
            for setting in _SETUP:
                gdb.command(setting)
            gdb.console("set auto-solib-add on")
            gdb.console("handle SIGUSR1 nostop noprint pass")
            gdb.console("set sysroot /")
            gdb.command(f"-file-exec-and-symbols {gdb.link(str(program))}")
            gdb.console(f"break {stop}")
            gdb.console("run")
            for _ in range(100):
                if parse_records(gdb.command("-stack-info-depth")).ok:
                    break
                time.sleep(0.05)
            return {
                question: [line.replace(folder, "/src") for line in gdb.command(question)]
                for question in questions
            }


def version() -> str:
    with GdbSession(timeout_s=30) as gdb:
        return parse_records(gdb.command("-gdb-version")).console.splitlines()[0]


def main() -> None:
    for name in CASES:
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record(name), indent=1, ensure_ascii=False)
        (folder / "transcript.json").write_text(text + "\n", encoding="utf-8")
        (folder / "version.txt").write_text(version() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
