"""Text on a terminal: numbers, names, widths, the console."""
