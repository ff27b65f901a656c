"""From the clues of one log to an incident: who died first, of what and where."""
