"""What Nsight Systems exports (``nsys export --type sqlite``) → a trace."""
