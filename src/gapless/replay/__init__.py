"""What-if: a recorded trace or run played again with one thing changed."""
