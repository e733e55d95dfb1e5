"""The option ``--log-to``: what a study found goes to experiment trackers, too."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gapless.errors import UsageError
from gapless.tracking import KINDS

if TYPE_CHECKING:
    from gapless.model.study import Study


def add_log_to(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--log-to",
        metavar="TRACKER",
        action="append",
        type=_tracker,
        default=[],
        help=f"log account and findings to {', '.join(KINDS)}[:TARGET]",
    )


def _tracker(text: str) -> tuple[str, str | None]:
    """Parse KIND[:TARGET]. Raises what argparse turns into a usage error."""
    kind, _, target = text.partition(":")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(KINDS)}[:TARGET]")
    return kind, target or None


def check_log_to(arguments: argparse.Namespace) -> None:
    """Raise ``UsageError`` if a package is missing: before what takes long."""
    if arguments.log_to:
        from gapless.tracking.trackers import check_tracker

        for kind, _ in arguments.log_to:
            check_tracker(kind)


def log_to_trackers(study: "Study", arguments: argparse.Namespace) -> Iterator[str]:
    """Log a study to each tracker, and yield where.

    Raises ``UsageError`` where some refuse, once the others have it.
    """
    if arguments.log_to:
        from gapless.tracking.figures import track_study
        from gapless.tracking.trackers import log_study

        refusals = list[str]()
        for kind, target in arguments.log_to:
            try:
                yield log_study(track_study(study), kind, target)
            except UsageError as error:
                refusals.append(str(error))
        if refusals:
            raise UsageError("; ".join(refusals))
