"""A tab in TensorBoard: runs and traces below its --logdir, each shown as its page."""
