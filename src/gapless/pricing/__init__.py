"""What a change of a run is worth, which causes to name, in which order, and what to propose."""
