"""Rules that turn facts into findings; pure functions."""
