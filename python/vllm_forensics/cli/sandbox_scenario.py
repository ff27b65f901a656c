"""What a sandbox run is made of, from options: one run's, or what two runs have in common.

A scenario is a recording, or options of `sandbox run` in one word: `best-of=3`,
`"vllm=0.4.2 best-of=3"`, `"--vllm 0.4.2 --best-of 3"`. What it does not say is as in the options
that stand apart, or as in the recording that it is compared with.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import Generation, Parameters, Plant, Policy

if TYPE_CHECKING:
    from vllm_forensics.investigate.sandbox import Wanted
    from vllm_forensics.model.sandbox_recording import Recording

_PARAMETERS: Final = (
    *("gpu_blocks", "cpu_blocks", "block_size", "best_of", "sliding_window", "prefix_caching"),
    *("chunked_prefill", "max_batched_tokens", "max_seqs", "max_model_len", "block_manager"),
    *("max_steps", "async_scheduling", "spec_tokens", "hybrid", "connector"),
)
_NATIVE: Final = "native"
"""Our own engine over real memory."""
_LOAD: Final = ("requests", "prompt_len", "max_tokens", "seed", "load", "trigger")
_NOT_OF_A_SCENARIO: Final = (
    *("events", "snapshots", "emit_test", "no_compare", "output_format", "output", "no_color"),
)


def say_fetching(what: str) -> None:
    """Progress, on standard error."""
    click.echo(f"fetching {what} with pip, once …", err=True)


def wanted_of(given: Mapping[str, Any]) -> Wanted:
    """A run from the values of its options.

    Raises:
        UsageError: two of them contradict each other.

    """
    from vllm_forensics.investigate.sandbox import Wanted
    from vllm_forensics.sandbox.snapshots import SnapshotsWanted
    from vllm_forensics.sandbox.trigger import Trigger

    if given["load"] is not None and given["trigger"] is not None:
        raise UsageError("--load and --trigger are two loads", remedy="leave one of them out")
    check, every = given["check"]
    snapshots = given.get("snapshots", ())
    return Wanted(
        vllm=given["vllm"] or None,
        full=given["full"],
        engine=_engine(given["engine"]),
        native=given["drive_native"] or given["engine"] == _NATIVE,
        parameters=Parameters(
            **{name: given[name] for name in _PARAMETERS},
            policy=Policy(given["policy"]),
            plant=Plant(given["plant"]) if given["plant"] else None,
            check=check,
            check_every=every,
        ),
        requests=given["requests"],
        prompt_len=given["prompt_len"],
        max_tokens=given["max_tokens"],
        seed=given["seed"],
        trigger=Trigger(given["trigger"]) if given["trigger"] else None,
        load=given["load"],
        given=given.get("given"),
        events=given.get("events"),
        snapshots=SnapshotsWanted(
            steps=frozenset(number for word, number in snapshots if word == "step"),
            every=min((n for word, n in snapshots if word == "every"), default=None),
            at_end=("end", 0) in snapshots,
        ),
        compare=not given.get("no_compare", False),
    )


def _engine(name: str | None) -> Generation | None:
    if name == _NATIVE:
        return Generation.REFERENCE
    return Generation(name) if name else None


def add_scenario_options(command: click.Command, run: click.Command) -> click.Command:
    """Give a command all options of `sandbox run` that say what is run."""
    taken = {parameter.name for parameter in command.params}
    command.params += [
        parameter
        for parameter in run.params
        if parameter.name not in taken and parameter.name not in _NOT_OF_A_SCENARIO
    ]
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `sandbox run`, and those of them that were given to another command."""

    run: click.Command
    given: Mapping[str, Any]
    """Only what was typed."""

    @classmethod
    def of(cls, run: click.Command, context: click.Context) -> Options:
        """Those that were typed for the command that runs now."""
        return cls(run=run, given=_typed(context))

    def scenario(self, text: str, base: Recording | None = None) -> Wanted:
        """The run that a scenario means; `base` is the recording that it is a change of.

        Raises:
            UsageError: it is none.

        """
        return self._merged(
            _typed(self.run.make_context("forensics sandbox run", _words(text, self.run))), base
        )

    def change_of(self, base: Recording) -> Wanted:
        """A recording's run with the options that were typed."""
        return self._merged({}, base)

    def with_load(self, file: str) -> Wanted:
        """The run that the options mean, with the load of a file."""
        return self._merged({"load": file}, None)

    def _merged(self, own: Mapping[str, Any], base: Recording | None) -> Wanted:
        values = self.run.make_context("forensics sandbox run", []).params
        typed = {**self.given, **own}
        if base is not None:
            values |= _of_recording(base)
            if any(name in typed for name in _LOAD):
                values["given"] = None
        values |= typed
        asked = own if own else typed
        if asked.get("engine") == Generation.REFERENCE and "vllm" not in asked:
            values["vllm"] = None
        return wanted_of(values)


def is_file(text: str) -> bool:
    """Whether a scenario is a recording: a file that is there, or what can only mean one."""
    return Path(text).is_file() or ("=" not in text and text.endswith((".jsonl", ".log", ".gz")))


def _typed(context: click.Context) -> dict[str, Any]:
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) not in default
    }


def _of_recording(recording: Recording) -> dict[str, Any]:
    """What was driven then, with which values; what is not known is as usual."""
    found: dict[str, Any] = {"given": recording.load or None, "vllm": recording.version}
    parameters = recording.parameters
    if parameters is not None:
        found |= {name: getattr(parameters, name) for name in (*_PARAMETERS, "policy", "plant")}
        found["check"] = (parameters.check, parameters.check_every)
    return found


def _words(text: str, run: click.Command) -> list[str]:
    """As the command line would have them: dashes may be left out."""
    known = {option for parameter in run.params for option in parameter.opts}
    known |= {option for parameter in run.params for option in parameter.secondary_opts}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no scenario: {error}",
            remedy="give a recording, or options in one word such as best-of=3",
        ) from error
    found: list[str] = []
    for word in words:
        bare, equals, value = word.partition("=")
        name = "--" + bare.replace("_", "-").lstrip("-")
        if name in known and (equals or not word.startswith("-") or not value):
            found.append(f"{name}{equals}{value}")
        elif word.startswith("-") or (found and "=" not in found[-1] and found[-1] in known):
            found.append(word)  # a value, or what click refuses in its own words
        else:
            raise UsageError(
                f"{word!r} is no option of sandbox run, and no recording",
                remedy="give a file, or options in one word such as best-of=3 (sandbox run --help)",
            )
    return found
