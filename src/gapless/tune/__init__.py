"""Try proposals on top of one another, keep what is proven, and prove the whole."""
