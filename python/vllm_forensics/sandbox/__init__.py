"""A real scheduler without a GPU: every block watched from allocation to release."""
