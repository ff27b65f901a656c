"""A skip hides a gap; and nobody's own cases are touched.

With CI=true or --strict-skips a skip fails, unless allowed_skips.txt lists it with a reason. The
store of cases lies in a folder of the tests, for the commands that they start too: a new one for
each test. Signals are heard that a shell has its background's programs ignore.
"""

import fnmatch
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
"""A loaded machine is no failure."""

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")
CASES_VARIABLE = "VLLM_FORENSICS_CASES"
CASES_FOLDER = pytest.StashKey[Path]()
NUMBERS = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    _hear_signals()
    folder = Path(tempfile.mkdtemp(prefix="forensics-cases-"))
    folder.chmod(0o1777)  # tests run the command as other users too
    config.stash[CASES_FOLDER] = folder
    os.environ[CASES_VARIABLE] = str(folder / "cases.sqlite")


def _hear_signals() -> None:
    """Undo what a shell's background and nohup have all programs ignore that tests start."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[CASES_FOLDER], ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_cases(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ[CASES_VARIABLE]
    folder = request.config.stash[CASES_FOLDER] / str(next(NUMBERS))
    os.environ[CASES_VARIABLE] = str(folder / "cases.sqlite")
    yield
    os.environ[CASES_VARIABLE] = before
    shutil.rmtree(folder, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        default=os.environ.get("CI") == "true",
        help="fail on a skip that tests/py/allowed_skips.txt does not list (default where CI=true)",
    )


def _allowed_globs() -> tuple[str, ...]:
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    globs = (line.partition("  #")[0].strip() for line in lines if not line.startswith("#"))
    return tuple(glob for glob in globs if glob)


def _refuse_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure, in place; an expected failure, also reported so, is left."""
    if (
        not config.getoption("strict_skips")
        or report.outcome != "skipped"
        or hasattr(report, "wasxfail")
    ):
        return
    if any(fnmatch.fnmatchcase(report.nodeid, glob) for glob in _allowed_globs()):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    remedy = f"Install what is missing, or list {report.nodeid} in {ALLOWED_SKIPS.name}"
    report.longrepr = f"{reason}\nA skip is a failure here. {remedy}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(collector.config, report)
    return report
