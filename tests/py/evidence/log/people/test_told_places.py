"""Where somebody died as people say, where no record shows it."""

from __future__ import annotations

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.people.known_libraries import libraries_of
from vllm_forensics.evidence.log.people.statements import place_in
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death

FAULT = "\n```\nSegmentation fault (core dumped)\n```\n"


def death(text: str) -> Death:
    return incident_of(*text.splitlines()).first_death


def place(text: str) -> str | None:
    died = death(text)
    return died.function or died.module or died.python_function or died.file


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("# Segfault with pooldraw extension enabled\n" + FAULT, "pooldraw"),
        ("# poolserver segfault installing poolgis extension\n" + FAULT, "poolgis"),
        ("# pip install pool==1.2 causes segmentation fault upon import\n" + FAULT, "pool"),
        ("# Crash in `take_block` on start\n" + FAULT, "take_block"),
        ("# Crashed on CREATE EXTENSION pool_fdw with DEBUG\n" + FAULT, "pool_fdw"),
        ('# Crash when require("poolimage") is there\n' + FAULT, "poolimage"),
        ("# poold pool_take: Assertion `free > 0' failed.\n\npoold dumped core.\n", "pool_take"),
        (
            "# It crashes\n\nWe see a segfault issued against the `pool_mon` extension now:\n"
            + FAULT,
            "pool_mon",
        ),
        (
            "# It crashes\n\nI am sure that this is a problem in `poolwlist` here.\n" + FAULT,
            "poolwlist",
        ),
        (
            "# It crashes\n\nIt happens to me only when using pool_take_all here.\n" + FAULT,
            "pool_take_all",
        ),
        (
            "# Aborted\n\nthis error is located in pool_take.cpp's 73th line.\n" + FAULT,
            "pool_take.cpp",
        ),
        (
            "# It crashes\n\nI see that it happens always at\n\n`from pool.draw import line`\n"
            + FAULT,
            "import pool.draw",
        ),
        ("# It crashes\n\nHere:\nfree = pool_take(3, a_block);\n" + FAULT, "pool_take"),
        (
            "# Illegal instruction\n\n```\n$ python -m pool\nIllegal instruction (core dumped)\n"
            "```\n",
            "import pool",
        ),
        ("# It crashes\n\n>>> import pool\n>>> pool.take(3)\nSegmentation fault\n", "pool.take"),
        (
            "# Segmentation fault during import\n\nSo this code gives a segfault:\n\n"
            "```\nimport numpy\nimport pool\n```\n",
            "import pool",
        ),
        ("# R session aborts when calling take_block()\n\nIt does so always.\n", "take_block"),
        (
            "# R session aborted\n\nIt works. I think that it occurs when I execute take.all().\n",
            "take.all",
        ),
        ("# Problem\n\n> library(pool)\n\nI get this: R Session Aborted\n", "pool"),
        (
            "# The notebook dies\n\nAs you see after `import pool` the kernel died.\n",
            "pool",
        ),
        (
            "# Kernel crashed when importing pool\n\nI see it in a notebook of Python.\n",
            "pool",
        ),
        (
            "# It dies\n\nIf I do this\n\n```\nimport pool\n```\n\nThe notebook dies:\n\n"
            "```\nThe kernel appears to have died. It will restart automatically.\n```\n",
            "import pool",
        ),
        (
            "# Segfault\n\n"
            "在我们执行这个程序时执行到doc = Document()的时候回报Segmentation fault\n",
            "Document",
        ),
        ("# Segmentation Fault in Pool PTX codegen with it\n\nI see it always.\n", "Pool"),
        ("# python crash in libpool\n\nIt does so always.\n", "libpool"),
        ("# [PoolView] SIGSEGV when testing its example\n\nI get it always.\n", "PoolView"),
        ("# pool.take: segfault on start\n\nI get it always.\n", "pool.take"),
        (
            "# access violation at the end\n\nAccess violation when it ends.\n\n"
            "pool270.bpl - Read of address 00000000\n",
            "pool270.bpl",
        ),
        (
            "# It crashes\n\nI cannot find how, but I get an Access Violation in the\n"
            "`procedure TPool.Take(Block: TBlock);`\n",
            "TPool.Take",
        ),
        (
            "# AddressSanitizer: heap-buffer-overflow /src/pool.h:256:27 in TakeLong\n\n"
            "We found it by fuzzing.\n",
            "TakeLong",
        ),
        (
            "# Fatal Python error: PyThreadState_Get: the function must be called with the GIL\n\n"
            "I see it always.\n",
            "PyThreadState_Get",
        ),
        ("# Segfault with pool\n\nIt happens when calling `.take()` here.\n" + FAULT, "take"),
        (
            "# It crashes\n\nThe error is triggered when I call one of the pool_abn functions.\n"
            + FAULT,
            "pool_abn",
        ),
        (
            "# It crashes\n\nI get a core dump with d = pd.read_csv('a.csv') only.\n" + FAULT,
            "pd.read_csv",
        ),
        (
            "# It crashes\n\n```\nm.take(5)  # -> 5\nm.drop(2)  # -> segfault\n```\n" + FAULT,
            "m.drop",
        ),
    ],
)
def test_people_say_where(text: str, where: str) -> None:
    assert place(text) == where


@pytest.mark.parametrize(
    "text",
    [
        "# Crash with --use_pool in release build\n" + FAULT,
        "# Crash when updating to non-existent extension\n" + FAULT,
        "# Crash when using batch_size of 3\n" + FAULT,
        "# Crash with `PoolError` under load\n" + FAULT,
        "# It calls abort() all the time and crashes\n" + FAULT,
        "# Crash in POOL_DEBUG mode with an out-of-date plugin\n" + FAULT,
        "# Crash in Makefile.mk\n" + FAULT,
        "# Crash when importing large files\n\nI use Python for it.\n" + FAULT,
        "# It crashes\n\nIt happens in args.pool_of_blocks only.\n" + FAULT,
        "# [MacOS] SIGSEGV on start\n\nI get it always.\n",
        "# Plugin crashes\n\nI see it crash with the newest plugin only.\n" + FAULT,
        "# R session aborts\n\nIt does, and nothing is told.\n",
        "# It crashes\n\nThe other one was idle in `pool_loop` until it was killed by me.\n"
        + FAULT,
        "# It crashes\n\n>>> exit()\nSegmentation fault\n",
    ],
)
def test_what_is_no_code_is_no_place(text: str) -> None:
    assert place(text) is None


def test_a_record_tells_more_than_people() -> None:
    text = (
        "# Crash in `take_block`\n\nkernel: pool[42]: segfault at 0 ip 00007f0000001234 "
        "sp 00007ffc00000000 error 4 in libdraw.so[7f0000000000+5000]\n"
    )
    assert place(text) == "libdraw.so"


def test_what_people_say_is_likely() -> None:
    died = death("# Crash in `take_block` on start\n" + FAULT)
    assert died.place_certainty is Certainty.LIKELY


def test_a_program_is_not_its_own_place() -> None:
    text = "# Crash with pool==2.1\n\nProcess 42 (pool) of user 1000 dumped core.\n"
    died = death(text)
    assert (died.name, died.module) == ("pool", None)


def test_a_clause_names_a_library_and_its_function() -> None:
    died = death(
        "# It crashes\n\nI get a segfault inside the PoolDraw library, on `take_block` only.\n"
        + FAULT
    )
    assert (died.module, died.function) == ("PoolDraw", "take_block")


def test_who_imports_a_library_in_python_is_python() -> None:
    died = death("# Pool segfaults when drawing\n\n```python\nimport pool\npool.draw(3)\n```\n")
    assert (died.name, died.module) == ("python", "pool")


def test_a_function_is_no_program() -> None:
    died = death("# `pool.take` segfaults after the merge\n\nI see it always.\n")
    assert (died.name, died.function) == (None, "pool.take")


def test_a_script_is_a_program() -> None:
    assert death("# pool.py segfaults after the merge\n\nI see it always.\n").name == "pool.py"


def test_a_title_names_by_a_plain_word_what_the_text_calls() -> None:
    text = "# Segfault on imdraw\n\nI do this:\n\n```\npool.imdraw(3)\nwait(3)\n```\n"
    assert death(text).function == "pool.imdraw"


def test_libraries_are_what_a_text_uses() -> None:
    lines = [
        "import numpy as np",
        ">>> from pool.draw import line",
        "$ pip install -U poolview",
        "CREATE EXTENSION IF NOT EXISTS poolgis;",
        "import the files from here",
        "shared_preload_libraries = 'poolstat, poolmon'",
        "import sys",
    ]
    assert list(libraries_of(lines)) == [
        "numpy",
        "pool",
        "poolview",
        "poolgis",
        "poolstat",
        "poolmon",
    ]


@pytest.mark.parametrize(
    ("statement", "function"),
    [
        (">>> print(pool.take(len(a)))", "pool.take"),
        ("res = ns::take(a, b);", "ns::take"),
        ("from pool import take", "import pool"),
        ("# pool.take(3)", None),
        ("exit()", None),
        ('a = b.split(",")', None),
        (" 2: ns::take(int) [/usr/bin/pool]", None),
        ("a = 3", None),
    ],
)
def test_a_statement_calls_or_imports(statement: str, function: str | None) -> None:
    found = place_in(statement)
    assert (found.function if found is not None else None) == function
