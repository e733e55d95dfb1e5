"""What a step does to parameters: their averages, and gradients that nothing uses."""
