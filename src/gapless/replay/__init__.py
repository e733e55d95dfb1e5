"""What-if: a recorded trace or run, replayed with something changed."""
