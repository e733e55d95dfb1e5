"""Drop-ins for which samples make a batch, and how it is copied."""
