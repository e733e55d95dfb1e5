"""Write proven fixes into the user’s source as a patch that can be undone."""
