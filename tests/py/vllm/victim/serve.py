"""Generates with a real vLLM on the CPU, offline: a model without weights or tokenizer."""

import sys

from vllm import LLM, SamplingParams  # type: ignore[import-not-found]


def main() -> None:
    model = LLM(
        model=sys.argv[1],
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=512,
        block_size=32,
    )
    prompts = [{"prompt_token_ids": list(range(5, 45))} for _ in range(4)]
    model.generate(prompts, SamplingParams(detokenize=False, max_tokens=64, temperature=0))


if __name__ == "__main__":
    main()
