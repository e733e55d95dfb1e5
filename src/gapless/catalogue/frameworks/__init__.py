"""The names of fixes and causes in the frameworks that run a training."""
