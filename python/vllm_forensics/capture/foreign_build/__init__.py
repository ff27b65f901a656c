"""Builds a project that is not ours, unedited, with other flags than its own."""
