"""Say whether a training became slower, and only if that is proven."""
