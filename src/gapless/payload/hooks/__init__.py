"""One file for each part of torch that is observed."""
