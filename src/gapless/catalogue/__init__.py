"""Named edits and, later, rules: what can be wrong with a training and what helps."""
