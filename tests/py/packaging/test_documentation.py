"""What the documentation names is there: pages, headings, commands and their options."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from vllm_forensics.cli.main import cli

ROOT = Path(__file__).parents[3]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")
COMMAND = re.compile(r"(?:^|[\s$|`(;])forensics ((?:[^`#|;]|\|(?=\|))*)")
FENCED = re.compile(r"^```(?!python|cpp|toml)\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_BY_HAND = re.compile(r"/adr/|reference/commands")
"""Decisions are not edited later; the page of commands is written by them."""
STANDS_FOR = re.compile(r"[A-Z][A-Z_]*|…|\.\.\.|\\")


def code_free(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that a forge gives to headings."""
    titles = re.findall(r"^#+ (.*)$", code_free(page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for target, anchor in LINK.findall(code_free(page.read_text())):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{name} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name} links to {target}#{anchor}"


def commands_in(text: str) -> Iterator[list[str]]:
    """The command lines of `forensics` in code, long ones put together."""
    code = re.findall(
        r"^```(?!python|cpp|toml)\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )
    code += re.findall(r"(?<!`)`(forensics [^`]+)`", text)
    for line in re.sub(r"\\\n\s*", "", "\n".join(code)).splitlines():
        for words in COMMAND.findall(line.partition(" # ")[0]):
            try:
                yield shlex.split(words)
            except ValueError:  # an apostrophe in the words behind a command
                yield words.split()


def option_names(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    } | {"--help"}


@pytest.mark.parametrize("name", [name for name in NAMES if not NOT_BY_HAND.search(name)])
def test_every_command_and_option_exists(name: str) -> None:
    for words in commands_in((ROOT / name).read_text()):
        command: click.Command = cli
        context = click.Context(cli)
        while words and isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            if found is None:
                break
            command, words = found, words[1:]
        if command is cli:
            assert not words or words[0].startswith("-") or STANDS_FOR.match(words[0]), words
            continue
        own = words[: words.index("--")] if "--" in words else words
        for word in own:
            if word.startswith("--"):
                given = word.partition("=")[0].rstrip(",.:)")
                assert given in option_names(command), f"{name}: {command.name} {given}"


def test_the_page_of_commands_is_what_they_say_now() -> None:
    script = ROOT / "scripts" / "command_reference.py"
    printed = subprocess.run(
        (sys.executable, str(script)), capture_output=True, text=True, check=True
    ).stdout

    page = ROOT / "docs" / "reference" / "commands.md"
    assert page.read_text() == printed, f"python {script.name} > {page.relative_to(ROOT)}"
