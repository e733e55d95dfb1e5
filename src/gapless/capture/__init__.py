"""One trace, or those of many ranks, reduced to what a study needs of it."""
