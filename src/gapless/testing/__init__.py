"""The plugin of pytest: what a test trains must stay within budgets."""
