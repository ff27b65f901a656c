"""The user's own store of the crashes that were seen before."""
