"""An arm of a trial: run in isolation, so that it leaves nothing behind."""
