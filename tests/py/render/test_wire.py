"""The JSON that users script against: names, shapes, and its published schema."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.support.images import a_frame
from tests.py.support.reports import a_report, single_report

from vllm_forensics.model.report import Report
from vllm_forensics.model.stack import Variable
from vllm_forensics.render.clean import clean
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.wire import arguments_text, to_wire

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = ROOT / "docs" / "schemas"
EMPTY = Report(crashes=(), groups=(), failures=())

# The names that the contract promises; more may come, none may go.
CRASH = {
    "core", "program", "command", "pid", "signal", "fault", "culprit", "threads", "modules",
    "origin", "explanation", "next_steps", "signature", "gaps", "reraised_by",
}  # fmt: skip
NAMES = {
    "signal": {"number", "name", "code", "sender_pid"},
    "fault": {"kind", "access", "address", "size", "instruction", "message"},
    "culprit": {"function", "file", "line", "module", "tier"},
}
THREAD = {"id", "name", "crashed", "frames", "registers", "disassembly", "gil"}
FRAME = {
    "index", "pc", "function", "arguments", "file", "line", "module", "module_offset", "kind",
    "tier",
}  # fmt: skip
MODULE = {"path", "build_id", "start", "end", "debug_info", "matches_core"}
ORIGIN = {"what", "function", "file", "line", "instruction", "value", "certainty"}


def parsed(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_text(to_wire(report)))
    return found


def written_schemas() -> dict[str, str]:
    path = ROOT / "scripts" / "write_schemas.py"
    spec = importlib.util.spec_from_file_location("write_schemas", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.schemas()
    return found


def test_the_published_schemas_are_those_of_the_code() -> None:
    published = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.glob("*.json")}

    wanted = written_schemas()

    for name, text in wanted.items():
        assert published.get(name) == text, f"{name} differs: python scripts/write_schemas.py"


@pytest.mark.parametrize("report", [a_report(), single_report(), EMPTY, clean(a_report())])
def test_a_report_is_valid_by_its_schema(report: Report) -> None:
    schema = json.loads((SCHEMAS / "forensics.core.1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)

    jsonschema.validate(parsed(report), schema)


def test_the_schema_refuses_a_missing_and_a_wrong_value() -> None:
    schema = json.loads((SCHEMAS / "forensics.core.1.json").read_text(encoding="utf-8"))
    report = parsed(single_report())
    del report["crashes"][0]["fault"]["kind"]

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


def test_every_name_of_the_contract_is_there() -> None:
    report = parsed(a_report())

    crash = report["crashes"][0]
    assert set(report) == {"schema", "crashes", "groups", "failures"}
    assert set(crash) >= CRASH
    for name, fields in NAMES.items():
        assert set(crash[name]) >= fields
    assert set(crash["threads"][0]) >= THREAD
    assert set(crash["threads"][0]["frames"][0]) >= FRAME
    assert set(crash["modules"][0]) >= MODULE
    assert set(crash["origin"][0]) >= ORIGIN
    assert set(crash["gaps"][0]) >= {"what", "remedy"}
    assert set(report["groups"][0]) >= {"signature", "count", "cores", "representative"}
    assert set(report["failures"][0]) >= {"path", "error", "remedy"}


def test_numbers_are_rendered_as_promised() -> None:
    crash = parsed(single_report())["crashes"][0]

    assert crash["fault"]["address"] == "0x48"
    assert crash["origin"][0]["value"] == "0x0"
    assert crash["signal"] == {
        "number": 11, "name": "SIGSEGV", "code": "SEGV_MAPERR", "sender_pid": None,
    }  # fmt: skip
    assert crash["delivered"]["name"] == "SIGABRT"
    assert crash["threads"][0]["registers"]["rdi"] == "0x0"
    assert crash["threads"][0]["frames"][0]["arguments"] == "this=0x0"


def test_unknown_is_null() -> None:
    crash = parsed(a_report())["crashes"][2]

    assert (crash["program"], crash["fault"]["address"], crash["fault"]["access"]) == (
        None, None, None,
    )  # fmt: skip


def test_the_faulting_instruction_is_marked() -> None:
    listing = parsed(single_report())["crashes"][0]["threads"][0]["disassembly"]

    marked = [line for line in listing if line.startswith("=>")]
    assert marked == ["=> 0x401004  mov rax, qword ptr [rdi + 0x48]"]


def test_arguments_are_one_text_or_null() -> None:
    this = Variable(name="this", value="0x0", is_argument=True)
    frame = a_frame(0, "f", variables=(this, Variable(name="local", value="1")))

    assert arguments_text(frame.arguments) == "this=0x0"
    assert arguments_text(()) is None


def test_the_text_ends_with_a_newline() -> None:
    assert json_text(to_wire(EMPTY)).endswith("}\n")
