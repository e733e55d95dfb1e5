"""The sentences of a verdict: what a step does, and what was left aside."""
