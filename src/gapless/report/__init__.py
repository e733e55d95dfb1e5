"""Values → text: terminal, Markdown, JSON, CSV."""
