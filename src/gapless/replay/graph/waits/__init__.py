"""What threads and streams wait for: devices, events, other threads, collectives of the host."""
