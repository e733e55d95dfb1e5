"""One file a place of torch that is observed."""
