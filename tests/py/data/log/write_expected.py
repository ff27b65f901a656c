"""Write down what the reader says of every sample; look at each change before it is kept.

    python tests/py/data/log/write_expected.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log

FOLDER = Path(__file__).resolve().parent


def told(path: Path) -> dict[str, Any] | None:
    incidents = explain_incidents(parse_incident_log([path.read_bytes()]), path.name)
    if not incidents:
        return None
    incident = incidents[0]
    death = incident.first_death
    return {
        "incidents": len(incidents),
        "role": death.role.value,
        "pid": death.pid,
        "signal": death.signal,
        "class": death.cause.kind.value,
        "certainty": death.cause.certainty.value,
        "detail": death.cause.detail,
        "module": death.module,
        "function": death.function,
        "python_function": death.python_function,
        "evidence": [one.line for one in death.evidence],
        "echoes": [one.line for one in incident.echoes],
        "visible_error_is_echo": incident.visible_error_is_echo,
    }


def main() -> None:
    paths = sorted([*FOLDER.glob("died/*.log"), *FOLDER.glob("written/*.log")])
    expected = {f"{path.parent.name}/{path.name}": told(path) for path in paths}
    text = json.dumps(expected, indent=1) + "\n"
    (FOLDER / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
