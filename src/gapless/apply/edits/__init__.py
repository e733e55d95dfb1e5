"""How each kind of edit is written into source."""
