"""What people write: who speaks, of what, and whether a death is told or taught."""
