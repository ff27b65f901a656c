"""Rules that are broken on purpose, one at a time: the tests of diagnosis must notice each."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import vllm_forensics

PACKAGE = Path(vllm_forensics.__file__).parent
TESTS = Path(__file__).parent
PLUGIN = """
import sys
# An editable install finds modules before sys.path is asked.
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable")]
import vllm_forensics.diagnosis.rules as rules
assert rules.__file__.startswith({copy!r}), rules.__file__
"""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in one module of diagnosis; `tests` are those that should fail."""

    module: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = {
    "null ends at 4 KiB": Mutant(
        module="wording",
        old="NULL_PAGE: Final = 64 << 10",
        new="NULL_PAGE: Final = 4 << 10",
        tests=("bad_address",),
    ),
    "a general protection counts as null": Mutant(
        module="bad_address",
        old="if not context.signal.from_kernel or context.signal.code == SI_KERNEL:",
        new="if not context.signal.from_kernel:",
        tests=("bad_address",),
    ),
    "a sent signal counts as a fault": Mutant(
        module="context",
        old="return signal.number in FAULT_SIGNALS and signal.from_kernel",
        new="return signal.number in FAULT_SIGNALS",
        tests=("context",),
    ),
    "the youngest fault is taken for the first": Mutant(
        module="context",
        old="return next(reversed(faults or same), None)",
        new="return next(iter(faults or same), None)",
        tests=("context",),
    ),
    "any signal frame is undone": Mutant(
        module="context",
        old="        if frame.signal.number in FAULT_SIGNALS and frame.signal.may_be_fault\n",
        new="",
        tests=("context",),
    ),
    "writes become reads": Mutant(
        module="access",
        old="access=Access.WRITE if operand.writes else Access.READ,",
        new="access=Access.READ,",
        tests=("access",),
    ),
    "an operand covers one byte too many": Mutant(
        module="access",
        old="return access.address <= address < access.address + max(access.size, 1)",
        new="return access.address <= address <= access.address + max(access.size, 1)",
        tests=("access",),
    ),
    "a runtime's frame is to blame": Mutant(
        module="runtime_frames",
        old="if frame.module is not None and is_runtime_module(frame.module):",
        new="if frame.module is None:",
        tests=("calls",),
    ),
    "the callee on null is to blame": Mutant(
        module="calls",
        old="blamed = next((frame for frame in suspects if not has_null_this(frame)), None)",
        new="blamed = next(iter(suspects), None)",
        tests=("calls",),
    ),
    "a jump between leaves it proved": Mutant(
        module="origin",
        old="            certain = False\n",
        new="            certain = certain and True\n",
        tests=("origin",),
    ),
    "a destroyed register is followed": Mutant(
        module="origin",
        old="return None if place.register in _CALLER_SAVED else place",
        new="return place",
        tests=("origin",),
    ),
    "memcpy's arguments are exchanged": Mutant(
        module="origin",
        old='return "rdi" if access.access is Access.WRITE else "rsi"',
        new='return "rsi" if access.access is Access.WRITE else "rdi"',
        tests=("origin",),
    ),
    "two repeats are a recursion": Mutant(
        module="recursion", old="_LEAST_REPEATS: Final = 3", new="_LEAST_REPEATS: Final = 2",
        tests=("recursion",),
    ),
    "lines are part of the signature": Mutant(
        module="signature",
        old="names = [frame_name(frame, builds) for frame in telling_frames(frames)]",
        new='names = [f"{f.function}:{f.line}" for f in telling_frames(frames)]',
        tests=("signature",),
    ),
    "a plain abort comes before its reasons": Mutant(
        module="rules",
        old="    stack_smashing,\n    assertion_failure,\n    heap_message,",
        new="    plain_abort,\n    stack_smashing,\n    assertion_failure,\n    heap_message,",
        tests=("rules",),
    ),
    "a divisor that is not zero is divided by zero": Mutant(
        module="processor",
        old="if divisor is not None and divisor != 0:",
        new="if divisor is not None and divisor < 0:",
        tests=("processor",),
    ),
    "an exception's own what() is guessed": Mutant(
        module="exceptions",
        old="if not inherited or _OWN_WHAT not in symbol.value.name:",
        new="if False:",
        tests=("exceptions",),
    ),
    "a guard page need not be one": Mutant(
        module="control_flow", old="    if not guarded:\n", new="    if guarded is None:\n",
        tests=("control_flow",),
    ),
    "another's signal is the program's own": Mutant(
        module="outside",
        old="sent = signal.sender_pid is not None and signal.sender_pid not in own",
        new="sent = False",
        tests=("outside",),
    ),
    "arguments are part of a name": Mutant(
        module="sanitizer/names",
        old='name = _SPACES.sub(" ", _without_groups(name)).strip()',
        new='name = _SPACES.sub(" ", name).strip()',
        tests=("sanitizer/names",),
    ),
    "a race has a first access": Mutant(
        module="sanitizer/signature",
        old="pair = sorted((_joined(use), _joined(other)))",
        new="pair = [_joined(use), _joined(other)]",
        tests=("sanitizer/signature",),
    ),
    "the fourth frame counts": Mutant(
        module="sanitizer/signature",
        old="USE_FRAMES: Final = 3",
        new="USE_FRAMES: Final = 4",
        tests=("sanitizer/signature",),
    ),
    "a pattern begins where the text does": Mutant(
        module="suppressed",
        old="if at_start and not text.startswith(pieces[0]):",
        new="if not text.startswith(pieces[0]):",
        tests=("suppressed",),
    ),
    "an exception counts as a clean end": Mutant(
        module="sanitized",
        old="if status == _PYTHON_EXCEPTION:",
        new="if status == 2:",
        tests=("sanitized",),
    ),
    "any runtime of an aborted process came too late": Mutant(
        module="sanitizer/traps",
        old='if runtimes and "_dl_init" in functions:',
        new="if runtimes:",
        tests=("sanitized",),
    ),
    "new compilers cannot stand wide addresses": Mutant(
        module="sanitizer/machine",
        old="and compiler.major <= _NARROW_SHADOW.get(compiler.name, 0)",
        new="and compiler.major",
        tests=("machine_checks",),
    ),
    "times apart are one process": Mutant(
        module="joined/lives",
        old="if apart > APART_S:",
        new="if apart > 1000 * APART_S:",
        tests=("joined/explain",),
    ),
    "two machines are one": Mutant(
        module="joined/lives",
        old="if None not in {one.host, other.host} and one.host != other.host:",
        new="if None in {one.host, other.host} and one.host != other.host:",
        tests=("joined/explain",),
    ),
    "what a handler sent is the first fault": Mutant(
        module="joined/statement_traces",
        old="cause, fault.name if fault is not None else signal, sent)",
        new="cause, signal, sent)",
        tests=("joined/explain",),
    ),
    "two restarts are one incident": Mutant(
        module="joined/incidents_apart",
        old="if any(lives.get(source, life) != life for source, life in self._lives.items()):",
        new="if any(lives.get(source, life) is None for source, life in self._lives.items()):",
        tests=("joined/incidents_apart",),
    ),
    "two hosts are one incident": Mutant(
        module="joined/incidents_apart",
        old="if len(self._hosts | other._hosts) > 1:",
        new="if len(self._hosts & other._hosts) > 1:",
        tests=("joined/incidents_apart",),
    ),
    "one library is one bug": Mutant(
        module="joined/same_bug",
        old="where = (death.function, None if death.function else offset, death.python_function)",
        new="where = (death.function, death.module, death.python_function)",
        tests=("joined/incidents_apart",),
    ),
    "one source contradicts itself": Mutant(
        module="joined/agreement",
        old="if other is not None and other.source > one.source:",
        new="if other is not None and other.source == one.source:",
        tests=("joined/explain",),
    ),
}  # fmt: skip


def run_tests(folder: Path, mutant: Mutant | None, names: tuple[str, ...]) -> tuple[int, str]:
    """Run the named test files of diagnosis on a copy of the package."""
    copy = folder / "vllm_forensics"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "specimen")
    shutil.copytree(PACKAGE, copy, ignore=ignored)
    if mutant is not None:
        path = copy / "diagnosis" / f"{mutant.module}.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"the mutant does not fit any more: {mutant.old}"
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    (folder / "copy_first.py").write_text(PLUGIN.format(copy=str(folder)), encoding="utf-8")
    files = [
        str(TESTS / "diagnosis" / Path(name).parent / f"test_{Path(name).name}.py")
        for name in names
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "copy_first", "-p", "no:cacheprovider",
         "-p", "no:hypothesispytest", *files],
        cwd=TESTS.parents[1],
        env=environment | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return finished.returncode, finished.stdout + finished.stderr


def test_the_unbroken_copy_passes(tmp_path: Path) -> None:
    names = tuple({name for mutant in MUTANTS.values() for name in mutant.tests})

    status, said = run_tests(tmp_path, None, names)

    assert status == 0, said


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(tmp_path: Path, name: str) -> None:
    mutant = MUTANTS[name]

    status, said = run_tests(tmp_path, mutant, mutant.tests)

    assert status == 1, said
    assert "1 failed" in said, said
