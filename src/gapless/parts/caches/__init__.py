"""Drop-ins that keep what samples are made of: in memory, or on a local disk."""
