"""Our own sources in one of their presets, proved like any other project's."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.capture.build import BuildPlan, BuildResult, build_specimen, source_folder
from vllm_forensics.capture.foreign_build.toolchain import find_compiler
from vllm_forensics.investigate.build import prove_file, write_manifest
from vllm_forensics.model.build import BuildManifest, Compiler, Flavour, Sanitizer, Step

_FLAVOURS: Final = {
    "asan": Flavour(sanitizers=(Sanitizer.ADDRESS,)),
    "ubsan": Flavour(sanitizers=(Sanitizer.UNDEFINED,)),
    "asan-ubsan": Flavour(sanitizers=(Sanitizer.ADDRESS, Sanitizer.UNDEFINED)),
    "tsan": Flavour(sanitizers=(Sanitizer.THREAD,)),
    "hardened": Flavour(hardened=True),
}


def build_own(
    plan: BuildPlan,
    on_step: Callable[[int, int], None] | None,
) -> BuildManifest:
    """Build programs and Python module, prove them, and write the manifest.

    Raises:
        UsageError: an unknown preset or compiler.
        ToolError: a tool is missing, or the build failed; then with the compiler's own words.

    """
    started, clock = datetime.now(UTC), time.monotonic()
    result = build_specimen(plan, on_step)
    seconds = round(time.monotonic() - clock, 2)
    flavour = _FLAVOURS.get(plan.preset, Flavour())
    used = find_compiler(plan.compiler, flavour)
    manifest = BuildManifest(
        source=str(source_folder()),
        folder=str(plan.folder),
        flavour=plan.preset,
        sanitizers=flavour.sanitizers,
        hardened=flavour.hardened,
        system="specimen",
        compiler=used,
        python=None,
        files=tuple(prove_file(path, flavour) for path in (*result.programs, *result.modules)),
        modules=tuple(path.name.partition(".")[0] for path in result.modules),
        steps=(Step(name="build", seconds=seconds),),
        started=started.isoformat(timespec="seconds"),
        seconds=seconds,
        log=None,
    )
    steps = tuple(_next_steps(result, plan.preset, used)) if manifest.proved else ()
    return write_manifest(replace(manifest, next_steps=steps))


def _next_steps(result: BuildResult, preset: str, compiler: Compiler) -> Iterator[str]:
    for program in result.programs:
        yield f"{shlex.quote(str(program))} --gtest_list_tests"
    if compiler.family == "clang" and preset == "tsan":
        return  # the module has no runtime of its own, and a plain python brings none
    for module in result.modules:
        start = f"PYTHONPATH={shlex.quote(str(module.parent))} python -c 'import _native'"
        if not compiler.runtimes:
            yield start
            continue
        runtimes = " ".join(
            (*compiler.runtimes, f"$({compiler.cxx} -print-file-name=libstdc++.so)")
        )
        yield f'LD_PRELOAD="{runtimes}" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 {start}'
