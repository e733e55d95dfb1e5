"""What runs in the user's interpreter as processes of its own, to read samples and write shards."""
