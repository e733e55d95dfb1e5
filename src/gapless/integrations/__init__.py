"""Callbacks for frameworks that run a training: recorded from within, a verdict in its log."""
