"""What can be driven: one file a generation of vLLM, and our own reference."""
