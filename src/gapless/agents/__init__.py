"""Tools for coding agents, by the Model Context Protocol: a run read, an edit tried, its patch."""
