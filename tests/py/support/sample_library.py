"""A library with one of each: exported, static, imported, and names that share their tails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.evidence.modules import ModuleFile, parse_module

SOURCE: Final = """
#include <string.h>
int counter = 7;
__attribute__((noinline)) static int helper(int x) { return x * counter; }
__attribute__((noinline)) int answer(const char *s) { return helper((int)strlen(s)) + 1; }
__attribute__((noinline)) int the_answer(const char *s) { return answer(s) + helper(2); }
extern int __plain(int) __attribute__((alias("plain")));
__attribute__((noinline)) int plain(int x) { return x + counter; }
"""


@dataclass(frozen=True, kw_only=True)
class SampleLibrary:
    """The files, and where nm says that the functions are."""

    whole: Path
    stripped: Path
    addresses: Mapping[str, int]

    def parse(self, *, stripped: bool = False) -> ModuleFile:
        return parse_module(memoryview((self.stripped if stripped else self.whole).read_bytes()))
