"""What other programs load of this one, by entry points."""
