"""The JSON documents that ``--json`` prints."""
