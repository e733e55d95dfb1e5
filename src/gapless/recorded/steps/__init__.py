"""Steps of a recorded run and the whole command, charged to leaves."""
