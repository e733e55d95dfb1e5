"""What devices did: their activities, why they were idle, which copies and waits they made."""
