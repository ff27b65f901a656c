"""The facts of a crash, and what was concluded from them: frozen data, no behaviour."""
