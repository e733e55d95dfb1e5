"""Drop-ins for which samples make a batch."""
