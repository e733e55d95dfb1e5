"""The command line: which command, its options, and what becomes of errors.

Exit codes: 0 well · 2 the user's mistake (one line on stderr, which names the page that explains
it) · 70 a mistake of gapless's own · 130 Ctrl-C · 141 the reader of the output went away.
"""

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from keyword import iskeyword
from types import ModuleType
from typing import Final, NoReturn

from gapless.errors import GaplessError, UsageError

COMMANDS: Final = (
    "run",
    "check",
    "doctor",
    "data",
    "try",
    "tune",
    "fix",
    "gate",
    "report",
    "explain",
    "open",
    "compare",
    "pack",
    "export",
    "runs",
    "watch",
    "attach",
    "mcp",
    "demo",
)
_BUG: Final = 70
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
_DOC_CELLS: Final = 100  # of a line of the help texts, as they are written
_USUAL_CELLS: Final = 80  # without a terminal
_PURPOSE: Final = "Find why the GPU waits. Know what each fix is worth. Prove it. Keep it."
_EPILOG: Final = """\
start here:
  gapless demo                   what it finds in a training that comes with it
  gapless run python train.py    where the time of yours goes
  gapless try                    what the first proposal is worth, measured
  gapless open trace.json.gz     the same for a trace of torch.profiler
  gapless watch                  a training that runs, or the machine, as it is now
  gapless doctor                 what is wrong with the machine itself

gapless COMMAND --help tells more, with examples.
"""


def run() -> NoReturn:
    """Run the command of this process, and end it.

    The collector is off and nothing is taken apart at the end: a long trace goes back to the
    system at once, instead of piece by piece.
    """
    gc.disable()
    code = main()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    _open_closed_streams()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except GaplessError as error:
        return _report_error(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # | head: nobody reads on; nor must the interpreter try to flush
        _drop_output()
        return _PIPE_CLOSED
    except OSError as error:  # no room left, as a rule
        _drop_output()
        return _report_error(GaplessError(_describe_refusal(error)))
    except Exception as error:
        if os.environ.get("GAPLESS_DEBUG"):
            raise
        return _report_bug(error)
    return code


def _open_closed_streams() -> None:
    """Replace a standard output or error that was closed (``>&-``) by one that goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _drop_output() -> None:
    """Discard what is still to be written, also when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> int:
    out: object = sys.stdout
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # a name from a trace fits any encoding
    if not argv:
        _parser(COMMANDS, _terminal_width()).print_help()
        return 0
    if not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise UsageError(_unknown_command_text(argv[0]))
    wants_help = not {"-h", "--help"}.isdisjoint(argv)
    width = _terminal_width() if wants_help else _DOC_CELLS
    parser = _parser(COMMANDS if argv[0].startswith("-") else (argv[0],), width)
    own_argv, command_line = _split_argv(argv)
    arguments = parser.parse_args(own_argv, argparse.Namespace(command_line=command_line))
    return module_of(arguments.command).main(arguments)


def module_of(command: str) -> ModuleType:
    """Return the module of a command; a keyword of Python's has a "_" behind it."""
    return import_module(f"gapless.commands.{command}{'_' * iskeyword(command)}")


def _split_argv(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split our options from the command behind ``--``, where one may stand there.

    argparse would take the first word of it for an argument of ours.
    """
    command = argv[0]
    if command in COMMANDS and "--" in argv:
        sign = getattr(module_of(command), "COMMAND_AFTER", None)
        if sign is not None:
            index = argv.index(sign)
            return argv[:index], tuple(argv[index + 1 :])
    return argv, ()


def _parser(names: Sequence[str], width: int = _DOC_CELLS) -> argparse.ArgumentParser:
    """Return a parser of the command that is asked for alone: a training waits for it.

    ``width``: cells of a line of help; descriptions are folded where they are longer.
    """
    parser = argparse.ArgumentParser(
        prog="gapless",
        description=_fold(_PURPOSE, width),
        epilog=_fold(_EPILOG, width),
        formatter_class=_formatter,
        add_help=False,
    )
    parser.error = _raise_usage_error
    commands = parser.add_subparsers(
        title="commands", prog=parser.prog, dest="command", metavar="COMMAND", required=True
    )
    options = parser.add_argument_group("options")  # below the commands
    options.add_argument("-h", "--help", action="help", help="show this help message and exit")
    options.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    for name in names:
        module = module_of(name)
        subparser = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=_fold(module.__doc__ or "", width),
            formatter_class=_formatter,
        )
        subparser.error = _raise_usage_error
        module.arguments(subparser)
    return parser


def _formatter(prog: str) -> argparse.RawDescriptionHelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=_terminal_width() - 2)


def _terminal_width() -> int:
    """Return the cells of a line of the terminal.

    argparse itself asks ``shutil``, whose import alone is a tenth of what stands before a run.
    """
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    with suppress(AttributeError, OSError, ValueError):
        width = width or os.get_terminal_size(sys.stdout.fileno()).columns
    return width or _USUAL_CELLS


def _fold(text: str, width: int) -> str:
    """Fold the paragraphs of a help text; a long example has what it does on a line of its own."""
    if width >= _DOC_CELLS:
        return text
    from textwrap import fill

    paragraphs = list[str]()
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if any(line.startswith("  ") for line in lines):
            folded_lines = [
                line if len(line) <= width else re.sub(r"(\S) {2,}", r"\1\n      ", line)
                for line in lines
            ]
            paragraphs.append("\n".join(folded_lines))
        else:
            paragraphs.append(
                fill(paragraph, width, break_on_hyphens=False, break_long_words=False)
            )
    return "\n\n".join(paragraphs)


class _Version(argparse.Action):
    """Print the version: looked up only when it is asked for, since that takes time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        import gapless

        print(f"gapless {gapless.__version__}")  # noqa: T201
        parser.exit(0)


def _raise_usage_error(message: str) -> NoReturn:
    raise UsageError(message)


def _unknown_command_text(command: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(command, COMMANDS, n=1)
    if close:
        return f"there is no command {command!r}; did you mean {close[0]!r}?"
    if command.endswith(".py"):
        return f"{command!r} is no command of gapless; to record it: gapless run python {command}"
    if os.path.exists(command):  # noqa: PTH110 - pathlib takes a third of what --help may take
        return f"{command!r} is no command; to open it: gapless open {command}"
    return f"there is no command {command!r}; there are: {', '.join(COMMANDS)}"


def _report_error(error: GaplessError) -> int:
    from gapless.commands.options import tell

    tell(f"{error} (gapless explain {error.slug})")
    return 2


def _describe_refusal(error: OSError) -> str:
    try:
        os.getcwd()  # noqa: PTH109 - pathlib takes a third of what --help may take
    except FileNotFoundError:
        return "the folder that this shell is in was removed; cd into one that is there"
    return f"the system refuses: {error}"


def _report_bug(error: Exception) -> int:
    from gapless.report.text.text import clean

    print(  # noqa: T201
        f"gapless: this is a mistake of gapless, not yours: {type(error).__name__}: "
        f"{clean(str(error))}; please report it with what GAPLESS_DEBUG=1 prints",
        file=sys.stderr,
    )
    return _BUG
