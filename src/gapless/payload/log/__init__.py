"""What a process writes of itself: its identity, its frames, and sums of what is too much."""
