"""`forensics core` on cores that are large in one way each: in full, and as far as the stacks.

    python benchmarks/bench_core_giants.py

100,000 frames, 200 threads, 16 GiB of which nearly all is holes, and the same in 50,000 mappings.
The bar for each is 5 s of wall time and 300 MB for the largest process, gdb among them. Where
others work on the machine, look at the processor time.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import used_by
from tests.py.integration.crashes import (
    DEEP_FLAGS,
    RECURSION,
    REGIONS,
    SPARSE,
    THREADS,
    compile_program,
    leave_core,
)

_STACK_BYTES = 8 << 20
GIANTS = {
    "100,000 frames": (RECURSION, DEEP_FLAGS, "stack-overflow"),
    "200 threads": (THREADS, (), "null-dereference"),
    "16 GiB of holes": (SPARSE, (), "wild-pointer"),
    "16 GiB, 50,000 mappings": (REGIONS, (), "wild-pointer"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    forensics = shutil.which("forensics") or sys.exit("forensics is not on PATH")
    with tempfile.TemporaryDirectory() as name:
        for number, (what, (source, flags, kind)) in enumerate(GIANTS.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            program = compile_program(source, folder / "giant", *flags)
            stack = f"--stack={_STACK_BYTES}:"
            core = leave_core(["prlimit", stack, str(program)], folder / "crash")
            for depth in ("full", "stack"):
                answer = folder / "answer.json"
                options = ["--no-store", "--format", "json", "--depth", depth]
                used = used_by([forensics, "core", *options, core], answer)
                [crash] = json.loads(answer.read_text())["crashes"]
                wrong = "" if crash["fault"]["kind"] == kind else f"  WRONG: {crash['fault']}"
                print(
                    f"{what:24} {depth:5}  {used.wall_s:5.2f} s (bar 5), {used.cpu_s:5.2f} s of "
                    f"processor time, {used.peak_mb:4.0f} MB (bar 300){wrong}",
                    flush=True,
                )
            shutil.rmtree(folder)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
