"""Causes in periodic work: checkpoints, evaluation, logging."""
