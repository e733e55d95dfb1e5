"""Options that commands share, what they mean for a study, and progress on the terminal."""

import argparse
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gapless.model.study import Study
    from gapless.study import Options

_EXPORTS = ("perfetto", "speedscope", "parquet")  # options that name what is written for others
_PICTURED = ("html", "perfetto")  # options that need what only a page draws
_USUAL_CELLS = 80  # of a line, where the terminal does not say
_SPARE_CELLS = 3  # of a line of progress: for "^C" of who interrupts it


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add options that select and order: ranks, steps, shapes, rows."""
    parser.add_argument("--rank", metavar="R", help="only these ranks: 3, 0-3, 0,4")
    parser.add_argument("--steps", metavar="A-B", help="only these steps: 5, 3-7, 10-")
    parser.add_argument("--by-shape", action="store_true", help="split operators by input shapes")
    parser.add_argument(
        "--top",
        metavar="N",
        type=positive,
        default=10,
        help="rows of a table (10); JSON and CSV give all",
    )
    parser.add_argument("--no-cache", action="store_true", help="neither use nor fill the cache")


def add_forms(parser: argparse.ArgumentParser, *, of_study: bool = False) -> None:
    """Add output forms; some are only for studies."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")
    if of_study:
        form.add_argument("--markdown", action="store_true", help="print Markdown, names in full")
        form.add_argument(
            "--csv", metavar="TABLE", help="print one table as CSV: operators, kernels, …"
        )
        form.add_argument(
            "--html",
            metavar="FILE",
            type=Path,
            help="write a page that works offline (docs/page.md)",
        )
        parser.add_argument(
            "--perfetto", metavar="FILE", type=Path, help="write a window for ui.perfetto.dev"
        )
        parser.add_argument(
            "--speedscope",
            metavar="FILE",
            type=Path,
            help="write the calls of a run for www.speedscope.app",
        )
        parser.add_argument(
            "--parquet", metavar="DIR", type=Path, help="write the tables as Parquet files"
        )
    parser.add_argument("--width", metavar="N", type=positive, help="columns (of the terminal)")


def add_depth(parser: argparse.ArgumentParser) -> None:
    """Add how much is printed: the first screen, all of it, or parts by name."""
    parser.add_argument("--full", action="store_true", help="print all, not the first screen alone")
    parser.add_argument(
        "--section",
        metavar="NAME",
        action="append",
        help="print this part: causes, steps, loaders, ranks, calls, machine, kernels …",
    )


def add_takeover(parser: argparse.ArgumentParser, seconds: float, beside: str) -> None:
    """Add the options of commands that run a training as far as what they measure in its place.

    ``seconds``: for measuring unless the user says otherwise; ``beside``: what these leave out.
    """
    parser.add_argument(
        "--seconds",
        metavar="TIME",
        type=budget,
        default=seconds,
        help=f"for measuring, beside {beside} ({seconds:.0f})",
    )
    parser.add_argument(
        "--allow-writes", metavar="PATH", type=Path, action="append", default=[],
        help="the command may write there, outside the working folder",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--in", metavar="DIR", dest="place", type=Path, help="the folder of runs")
    add_forms(parser)


def positive(text: str) -> int:
    """Parse a positive number. Raises what argparse turns into a usage error."""
    if not text.isascii() or not text.isdigit() or not int(text[:10]) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text[:10])


def budget(text: str) -> float:
    """Parse a time (90, 90s, 4m, 1h) into seconds. Raises what argparse turns into an error."""
    scale = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:])
    number = text if scale is None else text[:-1]
    try:
        seconds = float(number) * (scale or 1.0)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; for example 90s or 4m")
    return seconds


def study_options(arguments: argparse.Namespace) -> "Options":
    """Return the study's options from the arguments. Raises ``UsageError``."""
    from gapless.study import Options

    return Options(
        by_shape=arguments.by_shape,
        rank=arguments.rank,
        steps=arguments.steps,
        leaf=getattr(arguments, "leaf", None),
        step=getattr(arguments, "step", None),
        on=getattr(arguments, "on", None),
        pieces=arguments.top,
        cache=not arguments.no_cache,
        pictured=any(getattr(arguments, name, None) is not None for name in _PICTURED),
    )


def writes_file(arguments: argparse.Namespace) -> bool:
    """Return whether a study is written into files, instead of printed."""
    return any(getattr(arguments, name, None) is not None for name in ("html", *_EXPORTS))


def give_study(study: "Study", arguments: argparse.Namespace) -> None:
    """Write a study into the file that was named, or print it."""
    if writes_file(arguments):
        write_study_file(study, arguments)
        return
    from gapless.report.forms import write_study

    write_study(study, arguments)


def write_study_file(study: "Study", arguments: argparse.Namespace) -> None:
    """Write the page of a study, or what other viewers read, and say where it is.

    Raises ``UsageError`` if it cannot be written, or if nothing is there to write.
    """
    if arguments.html is not None:
        from gapless.page.study_page import study_page

        write_page(study_page(study, _find_diffs(study)), arguments.html)
    elif arguments.perfetto is not None:
        _write_perfetto(study, arguments.perfetto)
    elif arguments.speedscope is not None:
        _write_speedscope(study, arguments.speedscope)
    else:
        from gapless.report.sheet_parquet import write_parquet

        for path in write_parquet(study, arguments.parquet):
            print(f"table: {path}")


def _write_perfetto(study: "Study", path: Path) -> None:
    from gapless.errors import UsageError
    from gapless.report.documents.perfetto import perfetto_json

    if study.picture is None:
        raise UsageError("there is no window to draw: this run has none that was read")
    write_file(perfetto_json(study.picture), path)
    print(f"trace: {path} (open it at ui.perfetto.dev, or in chrome://tracing)")


def _write_speedscope(study: "Study", path: Path) -> None:
    import shlex

    from gapless.errors import UsageError
    from gapless.report.documents.speedscope import speedscope_json

    if study.recorded is None:
        raise UsageError("there are no calls to write: only of recorded runs stacks are sampled")
    if not study.recorded.calls:
        raise UsageError("there are no calls to write: no stack of this run was sampled")
    name = shlex.join(study.recorded.life.command)
    write_file(speedscope_json(study.recorded.calls, name), path)
    print(f"calls: {path} (open it at www.speedscope.app)")


def _find_diffs(study: "Study") -> Mapping[str, Sequence[str]]:
    """Return what the proposals of a run would change in its source."""
    if study.recorded is None or not study.proposals:
        return {}
    from gapless.apply.drafts.previews import preview_diffs

    return preview_diffs(Path(study.recorded.life.path), study.proposals)


def check_file(arguments: argparse.Namespace) -> None:
    """Raise ``UsageError`` if the file of a study could not be written, or is one form of two."""
    from gapless.errors import UsageError

    exports = [name for name in _EXPORTS if getattr(arguments, name) is not None]
    formats = (arguments.json, arguments.markdown, arguments.csv, arguments.html)
    if exports and (len(exports) > 1 or any(formats)):
        raise UsageError(f"--{exports[0]} writes a file of its own; leave out the other form")
    if arguments.parquet is not None:
        from gapless.report.sheet_parquet import check_parquet

        check_parquet()
    check_page(arguments.html)


def check_page(path: Path | None) -> None:
    """Raise ``UsageError`` if a page could not be written: before what takes minutes."""
    if path is None:
        return
    from gapless.errors import UsageError
    from gapless.page.document import check_libraries

    check_libraries()
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: its folder does not exist")


def write_page(page: str, path: Path, stream: TextIO | None = None) -> None:
    """Write a page and say where it is. Raises ``UsageError`` where nothing can be written."""
    content = page.encode()
    write_file(content, path)
    megabytes = len(content) / 1e6
    print(f"page: {path} ({megabytes:.1f} MB; open it in any browser)", file=stream or sys.stdout)


def write_file(content: bytes, path: Path) -> None:
    """Write a file. Raises ``UsageError`` where nothing can be written."""
    from gapless.errors import UsageError
    from gapless.store.atomic import write_named_file

    try:
        write_named_file(path, content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def tell(sentence: str) -> None:
    """Print a sentence of our own on stderr; on a terminal it is folded at spaces."""
    from gapless.report.text.text import clean

    text = f"gapless: {clean(sentence)}"
    if sys.stderr.isatty():
        from textwrap import fill

        text = fill(text, _columns(), break_on_hyphens=False, break_long_words=False)
    print(text, file=sys.stderr, flush=True)


def _columns() -> int:
    """Return the cells of a line of the terminal on stderr."""
    import os
    from contextlib import suppress

    with suppress(OSError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_CELLS
    return _USUAL_CELLS


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Return a function that shows a few words on stderr, if a terminal; cleared at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield _show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(words: str) -> None:
    """Show words in place of the previous ones; a line that wrapped could not be cleared."""
    from gapless.report.text.text import clean, cut_end

    line_words = cut_end(f"{clean(words)} …", max(1, _columns() - _SPARE_CELLS)) if words else ""
    print(f"\r\x1b[K{line_words}", end="", file=sys.stderr, flush=True)
