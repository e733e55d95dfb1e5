"""What gapless watch and attach draw: the same lines as text once, or on a screen that goes on."""
