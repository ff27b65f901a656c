"""Exceptions that ended programs of other languages than Python."""

from __future__ import annotations

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death

NODE = (
    "/opt/app/pool.js:2",
    "function take(n) { throw new TypeError('no block'); }",
    "                   ^",
    "",
    "TypeError: no block",
    "    at take (/opt/app/pool.js:2:26)",
    "    at Object.<anonymous> (/opt/app/pool.js:4:1)",
    "    at Module._compile (node:internal/modules/cjs/loader:1521:14) {",
    "  code: 'ENOBLOCK'",
    "}",
    "",
    "Node.js v20.20.2",
)
RUBY = (
    "pool.rb:1:in `take': undefined method `block' for nil:NilClass (NoMethodError)",
    "",
    "def take(pool) = pool.block",
    "                     ^^^^^^",
    "\tfrom pool.rb:2:in `<main>'",
)
PHP = (
    "PHP Fatal error:  Uncaught Error: Call to a member function block() on null in "
    "/opt/pool.php:2",
    "Stack trace:",
    "#0 /opt/pool.php(4): take()",
    "#1 {main}",
    "  thrown in /opt/pool.php on line 2",
)
LUA = (
    "lua5.4: pool.lua:1: attempt to index a nil value (field 'block')",
    "stack traceback:",
    "\tpool.lua:1: in local 'take'",
    "\tpool.lua:2: in main chunk",
    "\t[C]: in ?",
)
HASKELL = (
    "pool: Prelude.head: empty list",
    "CallStack (from HasCallStack):",
    "  error, called at src/Pool.hs:7:3 in main:Pool",
)
FORTRAN = (
    "At line 4 of file pool.f90",
    "Fortran runtime error: Index '9' of dimension 1 of array 'a' above upper bound of 3",
)
R = ('Error in take(pool) : object "block" not found', "Calls: take", "Execution halted")
ELIXIR = (
    "** (FunctionClauseError) no function clause matching in Pool.take/1",
    "",
    "    pool.exs:2: Pool.take/1",
    "    (elixir 1.14.0) lib/code.ex:1245: Code.require_file/2",
)
TCL = (
    'couldn\'t open "/opt/pool": no such file or directory',
    "    while executing",
    '"open $pool "',
    '    (procedure "take" line 1)',
    "    invoked from within",
    '"take /opt/pool"',
    '    (file "pool.tcl" line 2)',
)
DENO = (
    'error: Uncaught (in promise) TypeError: no block\n    throw new TypeError("no block");',
    "          ^",
    "    at take (file:///opt/app/pool.ts:2:11)",
)
PERL = ('Take!\nCan\'t call method "block" on an undefined value at pool.pl line 2.',)
JAVA = (
    'Exception in thread "pump-1" java.lang.IllegalStateException: no block',
    "\tat example.Pool.take(Pool.java:12)",
    "\tat java.base/java.lang.Thread.run(Thread.java:840)",
)


def place(death: Death) -> tuple[str | None, str | None, int | None]:
    return death.function, death.file, death.line


@pytest.mark.parametrize(
    ("lines", "name", "where"),
    [
        (NODE, "node", ("take", "/opt/app/pool.js", 2)),
        (RUBY, "pool.rb", ("take", "pool.rb", 1)),
        (LUA, "lua5.4", ("take", "pool.lua", 1)),
        (HASKELL, "pool", ("error", "src/Pool.hs", 7)),
        (FORTRAN, None, (None, "pool.f90", 4)),
        (R, "R", ("take", None, None)),
        (TCL, "pool.tcl", (None, "pool.tcl", 2)),
        (DENO, "deno", ("take", "/opt/app/pool.ts", 2)),
    ],
)
def test_who_gave_up_is_known_with_his_place(
    lines: tuple[str, ...], name: str | None, where: tuple[str | None, str | None, int | None]
) -> None:
    death = incident_of(*lines).first_death

    assert (death.name, place(death)) == (name, where)
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert death.cause.certainty is Certainty.PROVED


@pytest.mark.parametrize(
    ("lines", "name", "where"),
    [
        (PHP, "php", ("take", "/opt/pool.php", 2)),
        (
            (
                "PHP Fatal error:  Allowed memory size of 16777216 bytes exhausted (tried to "
                "allocate 2097152 bytes) in /opt/pool.php on line 2",
            ),
            "php",
            (None, "/opt/pool.php", 2),
        ),
        (ELIXIR, "pool.exs", ("Pool.take/1", "pool.exs", 2)),
        (PERL, "pool.pl", (None, "pool.pl", 2)),
        (JAVA, None, ("example.Pool.take", "Pool.java", 12)),
    ],
)
def test_who_may_have_gone_on_died_likely(
    lines: tuple[str, ...], name: str | None, where: tuple[str | None, str | None, int | None]
) -> None:
    death = incident_of(*lines).first_death

    if name is not None:
        assert death.name in {name, "php"}
    assert place(death) == where
    assert death.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    "lines",
    [
        ("Node.js v20.20.2", "npm 10.8.2"),
        ("PHP Warning:  Undefined variable $block in /opt/pool.php on line 2",),
        ("Use of uninitialized value $block in addition at pool.pl line 2.",),
        ("Error in take(pool) : no block", "> next()"),
        LUA[1:],
        ("recovered: runtime error: index out of range [5] with length 3",),
    ],
)
def test_an_error_that_ended_nothing_is_no_death(lines: tuple[str, ...]) -> None:
    assert not incidents_of(*lines)


def test_a_signal_says_more_than_who_gave_up_then() -> None:
    incident = incident_of("run.sh: line 3: 42 Segmentation fault      poold", *NODE)

    assert incident.first_death.signal == "SIGSEGV"


def test_what_ended_a_program_at_the_end_of_a_long_log_is_heard() -> None:
    lines = [f"take {number}" for number in range(20_000)]
    incident = incident_of(*lines, *NODE)

    assert place(incident.first_death) == ("take", "/opt/app/pool.js", 2)
    assert incident.first_death.evidence[0].line == 20_005


def test_a_prefix_of_a_container_is_none_of_it() -> None:
    death = incident_of(*(f"pool-1  | {line}" for line in NODE)).first_death

    assert place(death) == ("take", "/opt/app/pool.js", 2)


def test_another_languages_exception_is_none_of_pythons() -> None:
    """A logger may have shown it: nothing says that Node ended."""
    death = incident_of(*NODE[4:6]).first_death

    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert death.cause.certainty is Certainty.LIKELY
