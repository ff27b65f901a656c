"""A skip hides a gap.

With CI=true or --strict-skips it fails, unless allowed_skips.txt lists it with a reason.
"""

import fnmatch
import os
from collections.abc import Generator
from pathlib import Path

import pytest

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


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
