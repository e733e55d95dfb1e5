"""What gapless keeps on disk."""
