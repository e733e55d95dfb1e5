"""What only trials do in the training: stop at a planned step, seeds, parity, samples."""
