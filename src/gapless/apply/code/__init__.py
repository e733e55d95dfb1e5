"""The user’s files as text and syntax: what names mean, where values come from, where lines go."""
