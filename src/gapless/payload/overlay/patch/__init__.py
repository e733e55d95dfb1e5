"""How an edit replaces what it is about, and counts how often it took effect."""
