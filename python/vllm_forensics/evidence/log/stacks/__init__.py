"""Stacks as they are printed: every writer's frames, dumps and tracebacks."""
