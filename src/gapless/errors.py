"""Everything that gapless raises for bad input: one class, a few children, each with a slug."""


class GaplessError(Exception):
    """Say what is wrong, with the values, and then what to do.

    ``slug`` names the page ``docs/errors.md#<slug>`` that explains the error at length.
    """

    slug = "error"


class NotFoundError(GaplessError):
    """A path, a pattern or a rank that names nothing."""

    slug = "not-found"


class NotATraceError(GaplessError):
    """A file that holds no trace that gapless can read."""

    slug = "not-a-trace"


class RunFolderError(GaplessError):
    """A run folder, or a packed one, that cannot be read, or must not be touched."""

    slug = "run-folder"


class UsageError(GaplessError):
    """An option or a combination of options that cannot be followed."""

    slug = "usage"
