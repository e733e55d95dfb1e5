"""Rules that recognise causes of lost time, and fixes: the named edits against them."""
