"""What threads of the host did: nesting, steps, stages, and the row of the training thread."""
