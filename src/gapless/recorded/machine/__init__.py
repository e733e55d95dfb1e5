"""The machine during a run: sampled series, devices, processors, memory, files."""
