"""The logs that processes wrote, read back as values."""
