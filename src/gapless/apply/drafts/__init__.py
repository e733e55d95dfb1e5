"""A patch before it is written: of which fixes, from where each change comes, checked."""
