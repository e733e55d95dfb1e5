"""A recorded run: started, watched, and collected in its folder."""
