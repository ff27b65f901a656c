"""Reads what dying programs write into logs: one file a kind of text."""
