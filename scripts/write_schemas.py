"""Write the JSON schemas of the reports, from the types that render them, to docs/schemas/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from vllm_forensics.render import (
    build_wire,
    bundle,
    cases,
    doctor,
    hang,
    incident_wire,
    joined_wire,
    run,
    sandbox_bisect,
    sandbox_diff_wire,
    sandbox_explore_wire,
    sandbox_wire,
    sanitizer_wire,
    symbols,
    why,
    wire,
)
from vllm_forensics.sandbox import recording_lines

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "schemas"


def schemas() -> dict[str, str]:
    """Each schema's file name and text."""
    found = {
        "forensics.asan.1.json": sanitizer_wire.schema(),
        "forensics.build.1.json": build_wire.schema(),
        "forensics.bundle.1.json": bundle.schema(),
        "forensics.cases.1.json": cases.schema(),
        "forensics.core.1.json": wire.schema(),
        "forensics.doctor.1.json": doctor.schema(),
        "forensics.hang.1.json": hang.schema(),
        "forensics.incident.1.json": incident_wire.schema(),
        "forensics.report.1.json": joined_wire.schema(),
        "forensics.run.1.json": run.schema(),
        "forensics.sandbox.1.json": sandbox_wire.schema(),
        "forensics.sandbox_bisect.1.json": sandbox_bisect.schema(),
        "forensics.sandbox_diff.1.json": sandbox_diff_wire.schema(),
        "forensics.sandbox_events.1.json": recording_lines.schema(),
        "forensics.sandbox_explore.1.json": sandbox_explore_wire.schema(),
        "forensics.symbols.1.json": symbols.schema(),
        "forensics.why.1.json": why.schema(),
    }
    return {name: _text(schema) for name, schema in found.items()}


def _text(schema: dict[str, Any]) -> str:
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"docs/schemas/{name}")


if __name__ == "__main__":
    main()
