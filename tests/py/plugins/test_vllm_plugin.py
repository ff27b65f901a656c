"""A vLLM that loads our plugin is recorded if it is asked for, and otherwise not touched.

The scheduler is vLLM's own, without torch; tests/py/vllm has a whole engine.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.py.support import traced_engine
from tests.py.support.traced_engine import LAST_STEP, LOAD, lines_of
from tests.py.support.vllm_trees import CURRENT, a_tree

pytestmark = pytest.mark.xdist_group("vllm-trees")
NOTHING_ASKED = """
import sys
from importlib.metadata import entry_points
[plugin] = entry_points(group="vllm.general_plugins", name="forensics")
modules, finders = set(sys.modules), list(sys.meta_path)
plugin.load()()
print(sorted(set(sys.modules) - modules), finders == sys.meta_path)
"""


def serve(how: str, folder: Path, version: str = CURRENT, **variables: str) -> tuple[int, str]:
    """How a process with the plugin ended, and what it and vLLM's logger printed."""
    ended = traced_engine.serve(how, folder, version, **variables)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout


def only_trace(folder: Path) -> list[dict[str, Any]]:
    [file] = folder.iterdir()
    return lines_of(file)


def of_kind(kind: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def test_without_the_variable_the_plugin_imports_only_itself_and_changes_nothing() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "VLLM_FORENSICS_TRACE"}
    ended = subprocess.run(
        [sys.executable, "-c", NOTHING_ASKED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    modules = ["vllm_forensics", "vllm_forensics.plugins", "vllm_forensics.plugins.vllm_plugin"]
    assert ended.stdout.strip() == f"{modules} True", ended.stderr


@pytest.mark.parametrize("version", ["0.8.5", "0.11.0", "0.14.0", "0.20.2", "0.26.0", CURRENT])
def test_every_version_of_the_scheduler_is_recorded_whole(version: str, tmp_path: Path) -> None:
    status, said = serve("finish", tmp_path, version)

    lines = only_trace(tmp_path)
    head, steps = lines[0], of_kind("schedule", lines)
    assert status == 0
    assert "WARNING" not in said
    assert said.endswith("steps done, idle\n")
    # Preempting is a method of its own since 0.14; the step's line tells it in any version.
    assert set(head["live"].get("unseen", [])) <= {"_preempt_request"}
    assert not (version == CURRENT and head["live"].get("unseen"))
    assert head["parameters"]["gpu_blocks"] == 40
    assert head["parameters"]["block_size"] == 16
    assert head["live"]["file"] == a_tree(version).file
    assert [line["id"] for line in of_kind("request", lines)] == [spec.id for spec in LOAD]
    assert [line["step"] for line in steps] == list(range(len(steps)))
    assert len(of_kind("step", lines)) == len(steps)
    touched = {line["block"] for line in lines if line["kind"] in {"allocate", "free"}}
    assert 0 not in touched
    freed = len(of_kind("free", lines))
    assert freed == len(of_kind("allocate", lines)) + len(of_kind("touch", lines))


def test_a_call_site_in_a_trace_is_the_engine_s_own(tmp_path: Path) -> None:
    serve("finish", tmp_path)

    sites = {(line["file"], line["kind"]) for line in only_trace(tmp_path) if "file" in line}
    assert sites
    assert all(file.startswith("vllm/v1/core/") for file, _ in sites)


def test_no_token_is_in_a_trace_and_equal_blocks_have_equal_hashes(tmp_path: Path) -> None:
    serve("finish", tmp_path)

    lines = only_trace(tmp_path)
    first, second = (line["hashes"] for line in of_kind("request", lines)[:2])
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    allowed = {"prompt", "output", "arrival"}
    assert all(
        set(line) - {"kind", "id", "priority", "hashes"} <= allowed
        for line in of_kind("request", lines)
    )
    # The first token of a prompt's own part, as this engine makes them up.
    assert str((1 << 20) + 40) not in json.dumps(lines)


def test_of_a_block_s_content_nothing_is_told_but_when_it_came(tmp_path: Path) -> None:
    serve("finish", tmp_path)

    lines = only_trace(tmp_path)
    told = [line["hashes"] for line in of_kind("request", lines)]
    told += [
        hashes for line in of_kind("step", lines) for hashes in line.get("hashes", {}).values()
    ]
    flat = [content for hashes in told for content in hashes]
    assert len(flat) > len(set(flat)) > 10
    assert list(dict.fromkeys(flat)) == list(range(len(set(flat))))


def test_the_files_are_this_user_s_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "traces"
    serve("finish", folder)

    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_plugin_that_comes_after_the_scheduler_was_imported_records_it_too(
    tmp_path: Path,
) -> None:
    serve("before", tmp_path)

    assert len(of_kind("schedule", only_trace(tmp_path))) > LAST_STEP


def test_a_segmentation_fault_in_the_worker_leaves_the_step_that_it_had(tmp_path: Path) -> None:
    status, _ = serve("segv", tmp_path)

    lines = only_trace(tmp_path)
    assert status == -signal.SIGSEGV
    assert lines[-1]["kind"] == "schedule"
    assert lines[-1]["step"] == LAST_STEP
    assert [item[0] for item in lines[-1]["items"]] == [spec.id for spec in LOAD]
    assert of_kind("step", lines)[-1]["step"] == LAST_STEP - 1


def test_an_error_of_the_scheduler_is_told_by_its_place_and_raised_all_the_same(
    tmp_path: Path,
) -> None:
    _, said = serve("raise", tmp_path)

    [end] = of_kind("end", only_trace(tmp_path))
    assert "WARNING" not in said
    assert end["error"].startswith("AssertionError at vllm/v1/core/block_pool.py:")
    assert end["why"].startswith("the scheduler raised while it worked for request r")
    assert said.endswith("not idle\n")


def test_what_a_client_gave_up_is_told(tmp_path: Path) -> None:
    serve("abort", tmp_path)

    [line] = of_kind("abort", only_trace(tmp_path))
    assert (line["requests"], line["status"]) == (["r0"], "FINISHED_ABORTED")


def test_an_engine_that_we_do_not_understand_goes_on_and_that_is_said_once(
    tmp_path: Path,
) -> None:
    status, said = serve("blind", tmp_path)

    lines = only_trace(tmp_path)
    assert status == 0
    assert said.count("WARNING") == 1
    assert "the server goes on" in said
    assert said.endswith("steps done, idle\n")
    assert lines[-1]["kind"] == "stopped"
    assert "AttributeError" in lines[-1]["why"]


def test_a_folder_that_cannot_be_written_is_said_and_the_engine_goes_on(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("no folder", encoding="utf-8")

    status, said = serve("finish", taken / "traces")

    assert status == 0
    assert said.count("WARNING") == 1
    assert "NotADirectoryError" in said
    assert said.endswith("steps done, idle\n")


def test_a_second_scheduler_of_a_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    _, said = serve("twice", tmp_path)

    first, second = sorted((lines_of(file) for file in tmp_path.iterdir()), key=len)
    assert "another scheduler was built in this process" in said
    assert first[-1]["kind"] == "stopped"
    assert len(of_kind("schedule", second)) > LAST_STEP


def test_a_trace_that_grows_too_long_keeps_its_end_and_says_who_held_what(tmp_path: Path) -> None:
    serve("long", tmp_path, VLLM_FORENSICS_TRACE_MIB="1")

    files = sorted(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    head, state, *rest = lines_of(files[-1])
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 1.1 * (1 << 20)
    assert head["live"]["segment"] > 2
    assert state["kind"] == "state"
    assert of_kind("schedule", rest)[0]["step"] == state["step"] + 1 or state["requests"]
    held = {block for block, *_ in state["held"]}
    assert held == {b for known in state["requests"] for table in known["tables"] for b in table}
