"""The text of a trace: found, inflated, cut into chunks, mended."""
