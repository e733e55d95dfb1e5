"""What rocprofv3 writes as JSON → a trace."""
