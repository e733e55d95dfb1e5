"""The simulator of changes: windows, loaders and ranks in one graph; else the account."""
