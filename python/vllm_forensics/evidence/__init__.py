"""Bytes and text from a crash, read into the model."""
