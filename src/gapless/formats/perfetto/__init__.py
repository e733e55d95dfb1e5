"""Perfetto's traces (``.pftrace``, ``.perfetto-trace``) → a trace."""
