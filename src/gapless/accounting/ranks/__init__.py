"""What ranks did together: collectives, and who waited for whom in them."""
