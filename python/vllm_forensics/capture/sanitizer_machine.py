"""Reads what decides whether a sanitizer starts on this machine, and starts one to see."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, first_line, run_program
from vllm_forensics.capture.sanitizer_options import is_writable_prefix, parse_options
from vllm_forensics.capture.sanitizer_runtime import (
    find_scudo,
    preload_list,
    runtimes_of,
    standard_library,
)
from vllm_forensics.errors import ToolError
from vllm_forensics.model.machine import CompilerFacts, SanitizerFacts

_COMPILERS: Final = {"g++": "gcc", "clang++": "clang"}
_FLAVOURS: Final = ("asan", "ubsan", "tsan")
_VARIABLES: Final = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")
_QUICK: Final = Limits(timeout_s=20.0, output_bytes=1 << 16, core_bytes=0)


def read_sanitizers(environment: Mapping[str, str]) -> SanitizerFacts:
    """Gather the facts; `environment` is that of the program that would run."""
    options = tuple(
        (variable, name, value)
        for variable in _VARIABLES
        for name, value in parse_options(environment.get(variable, "")).items()
    )
    return SanitizerFacts(
        compilers=tuple(
            _compiler(name, family) for name, family in _COMPILERS.items() if find_program(name)
        ),
        preloaded=tuple(environment.get("LD_PRELOAD", "").replace(":", " ").split()),
        address_space_limit=resource.getrlimit(resource.RLIMIT_AS)[0],
        overcommit=_overcommit(),
        options=options,
        unwritable=tuple(
            value
            for _, name, value in options
            if name == "log_path"
            and value not in {"stdout", "stderr"}
            and not is_writable_prefix(value)
        ),
        start=_start(),
        valgrind=first_line("valgrind", "--version"),
        scudo=_scudo(),
    )


def _compiler(name: str, family: str) -> CompilerFacts:
    found: list[str] = []
    missing: list[str] = []
    remedy = None
    for flavour in _FLAVOURS:
        try:
            found += runtimes_of(family, flavour)
        except ToolError as error:
            missing.append(flavour)
            remedy = error.remedy
    version = first_line(name, "-dumpversion") or ""
    major = re.match(r"\d+", version)
    return CompilerFacts(
        name=name,
        major=int(major.group()) if major else None,
        runtimes=tuple(found),
        missing=tuple(missing),
        remedy=remedy,
    )


def _overcommit() -> int | None:
    try:
        text = Path("/proc/sys/vm/overcommit_memory").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _start() -> str | None:
    """What a Python said that could not start with the runtime preloaded; empty where it could."""
    for family in ("gcc", "clang"):
        try:
            runtimes = runtimes_of(family, "asan")
        except ToolError:
            continue
        library = standard_library(sys.base_prefix)
        with preload_list((*runtimes, *((library,) if library else ()))) as libraries:
            environment = {
                "LD_PRELOAD": libraries,
                "ASAN_OPTIONS": "detect_leaks=0",
                "PATH": os.environ.get("PATH", ""),
            }
            try:
                done = run_program(
                    [sys.executable, "-I", "-S", "-c", "pass"],
                    limits=_QUICK,
                    environment=environment,
                )
            except ToolError as error:
                return error.message
        said = done.stderr.decode("utf-8", "replace").strip()
        return "" if done.status == 0 else said or f"exit status {done.status}"
    return None


def _scudo() -> str | None:
    try:
        return find_scudo()
    except ToolError:
        return None
