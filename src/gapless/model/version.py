"""Which gapless this is."""

UNKNOWN = "unknown"


def version() -> str:
    """Return the version; ``unknown`` where it runs from its source without being installed."""
    from importlib import metadata  # noqa: PLC0415 - takes longer than --help may

    try:
        return metadata.version("gapless")
    except metadata.PackageNotFoundError:
        return UNKNOWN
