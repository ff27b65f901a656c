"""Runs the steps in order: open the evidence, ask it, judge it, put the answer together."""
