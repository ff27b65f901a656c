"""Texts for people, kept as files; UPDATE_SNAPSHOTS=1 writes them anew."""

import os
import re
from pathlib import Path

from vllm_forensics.render.rows import advice

FOLDER = Path(__file__).parents[1] / "data" / "render"


def compare(name: str, text: str) -> None:
    """Against the kept text; UPDATE_SNAPSHOTS=1 keeps the present one."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8"), "UPDATE_SNAPSHOTS=1 pytest tests/py/render"


def without_escapes(text: str) -> str:
    """The text as a terminal without colour shows it."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def too_wide(text: str, width: int) -> list[str]:
    """Lines that a terminal breaks, but for what may be typed and for long words."""
    return [
        line
        for line in text.splitlines()
        if len(line) > width
        and not advice(line).no_wrap
        and max(map(len, line.split())) <= width // 2
    ]
