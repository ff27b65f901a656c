"""The words of a death are one where what died printed them, and none in code, lessons or plans."""

import pytest

from vllm_forensics.evidence.log.people.prose import Voice, voice_of

HEAP = "free(): invalid pointer"


def voice(line: str, words: str = HEAP) -> Voice:
    start = line.index(words)
    return voice_of(line, start, start + len(words))


@pytest.mark.parametrize(
    "line",
    [
        HEAP,
        f"python: {HEAP}",
        f"*** Error in `python3': {HEAP}: 0x00000000012ab010 ***",
        f"{HEAP} Aborted (core dumped)",
        f'{{"level":"error","msg":"{HEAP}"}}',
        f'level=error msg="{HEAP}"',
        f"stderr=b'{HEAP}\\n'",
        f'"message": "{HEAP}",',
        f"Please check the logs for the dead worker: {HEAP}",
        f"subprocess died: RuntimeError('{HEAP}')",
        f"//opt/app/run: {HEAP}",
        f"01-15 08:12:45.123  4242  4242 I pool: Started. {HEAP}",
    ],
)
def test_what_a_program_printed_is_its_own(line: str) -> None:
    assert voice(line) is Voice.OWN


@pytest.mark.parametrize(
    "line",
    [
        f'when leaving it says "{HEAP}"',
        f"Crash on exit with `{HEAP}`",
        f"\u7a0b\u5e8f\u9000\u51fa\uff08`{HEAP}`\uff09",
        f"I get {HEAP} errors after the upgrade",
        f"The {HEAP}",
        f"It says {HEAP}",
        f"However, an ```{HEAP}``` error is raised",
        f"This message {HEAP}",
        f"We had started two. I read the log, and there it was. pool: [fatal] {HEAP}",
    ],
)
def test_what_stands_in_a_sentence_is_told(line: str) -> None:
    assert voice(line) is Voice.TOLD


@pytest.mark.parametrize(
    "line",
    [
        f"// {HEAP}",
        f"    # {HEAP}",
        f"drop(pool);  // {HEAP}",
        f'    printf("{HEAP}\\n");',
        f'assert "{HEAP}" in result.stderr',
        f'if echo "$output" | grep -q "{HEAP}"; then',
        f'NEEDLES = ["{HEAP}", "Killed"]',
        f'    "{HEAP}",',
        f'    r"{HEAP}",',
        f'needle = "{HEAP}"',
        f'#define MESSAGE "{HEAP}"',
        f'        raise RuntimeError("{HEAP}")',
        f'    ("RuntimeError: {HEAP}", "fatal"),',
        f"    u'text': u'{HEAP}, and more",
        f"  stderr: '{HEAP}\\n',",
        f'    entry(3, "worker[42]: {HEAP}", "kernel");',
        f"    expect(kindOfError('{HEAP}')).toBe(",
        f"    'double.c': '{HEAP}',",
        f"FATAL = re.compile('core dumped|{HEAP}|Killed')",
    ],
)
def test_what_stands_in_code_is_shown(line: str) -> None:
    assert voice(line) is Voice.SHOWN


@pytest.mark.parametrize(
    "line",
    [
        f"- Fix `{HEAP}` when the pool is closed twice",
        f"Avoids {HEAP} on exit",
        f"{HEAP} on exit has been fixed",
        f'A second release can lead to "{HEAP}".',
        f"Search for messages such as {HEAP}",
        f"If you release it twice, {HEAP} is printed.",
        f"The error looks something like `{HEAP}`.",
        f"Wenn `{HEAP}` erscheint, ist der Puffer zu klein.",
        f"With one buffer the job ends early (it prints `{HEAP}`). Increase the number of buffers.",
        f"`{HEAP}` is what the allocator prints",
        f"{HEAP}. The default action ends the program.",
        f"* [{HEAP}](#double-release)",
        f"Check the output for `{HEAP}`",
        f"Without a limit any pool is ended with `{HEAP}`",
        f"Old pools, `{HEAP}` and aborts at exit can all be caused by this.",
    ],
)
def test_what_was_mended_or_may_happen_is_shown(line: str) -> None:
    assert voice(line) is Voice.SHOWN


def test_who_tried_to_mend_it_and_saw_it_still_is_believed() -> None:
    assert voice(f"I tried to fix it and still get {HEAP}") is Voice.TOLD


def test_a_status_that_is_worked_out_is_nobodys() -> None:
    assert voice("128 + 9 = 137  (killed by SIGKILL)", "killed by SIGKILL") is Voice.SHOWN


def test_who_says_when_he_runs_it_has_seen_it() -> None:
    line = "When I am running my jobs I sometimes get: task exited with code 137"

    assert voice_of(line, line.index("exited"), len(line), in_prose=True) is not Voice.SHOWN
