"""The named edits: what each would change of a training, when, and what else that may change."""
