"""The run folder: its manifest, recording, database, trials; packed and unpacked."""
