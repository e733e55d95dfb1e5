"""What loaders do: which batches, from what, in which stages, at what cost."""
