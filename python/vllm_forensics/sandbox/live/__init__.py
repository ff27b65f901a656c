"""Records the scheduler of a vLLM that serves, in that vLLM's own process."""
