"""Secrets of a command line, argument by argument."""

import pytest

from vllm_forensics.render.clean import mask_arguments, mask_secrets

MASK = "********"


@pytest.mark.parametrize(
    ("arguments", "masked"),
    [
        (("serve", "--port", "80"), ("serve", "--port", "80")),
        (("--token", "abc def"), ("--token", MASK)),
        (("--token=abc def",), (f"--token={MASK}",)),
        (("HF_TOKEN=x",), (f"HF_TOKEN={MASK}",)),
        (("--api-key", "'quoted'"), ("--api-key", MASK)),
        (("--PASSWORD", "x"), ("--PASSWORD", MASK)),
        (("--token", "--verbose"), ("--token", "--verbose")),
        (("--token",), ("--token",)),
        (("--token=",), ("--token=",)),
        (("--max-num-batched-tokens=8192",), ("--max-num-batched-tokens=8192",)),
        (("--max-tokens", "5120"), ("--max-tokens", "5120")),
        (("--tokens", "abcdef"), ("--tokens", MASK)),
        (("--token", "5120"), ("--token", MASK)),
        (("curl", "https://me:secretword@host/"), ("curl", f"https://me:{MASK}@host/")),
        (("-c", "print('hf_abcdefghijklmnop')"), ("-c", f"print('{MASK}')")),
        ((), ()),
    ],
)
def test_values_of_secret_options_are_masked_whole(
    arguments: tuple[str, ...], masked: tuple[str, ...]
) -> None:
    assert mask_arguments(arguments) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--max-num-batched-tokens 8192 --x", "--max-num-batched-tokens 8192 --x"),
        ("max_tokens=8192", "max_tokens=8192"),
        ('{"max_tokens": 8192}', '{"max_tokens": 8192}'),
        ("tokens=81ab92", f"tokens={MASK}"),
        ("TOKENS: 8192-secret", f"TOKENS: {MASK}"),
        ("token=8192", f"token={MASK}"),
    ],
)
def test_a_number_of_tokens_is_no_secret(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
