"""How long operators would take in another format, layout or shape, by roofline models."""
