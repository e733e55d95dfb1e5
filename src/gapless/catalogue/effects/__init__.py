"""What edits change in the run, for replay, where several fixes have that in common."""
