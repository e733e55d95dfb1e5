"""What runs in the user's interpreter as a process of its own, to measure the machine."""
