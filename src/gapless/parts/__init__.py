"""Drop-ins for training code. They need torch, and nothing else of gapless."""
