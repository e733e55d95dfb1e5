"""A loader as queues, as it was and with other settings."""
