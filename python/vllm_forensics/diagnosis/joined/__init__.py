"""From many sources to incidents: what agrees stands together, what contradicts is said."""
