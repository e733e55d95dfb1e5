"""Where threads of the user’s process are, looked at a few times a second."""
