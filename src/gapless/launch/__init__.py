"""Start the training with the recorder inside, and sample the machine beside it."""
