"""Watch a training that gapless run records, or the machine, on a screen that goes on.

RUN is the folder of a run, a folder of runs (its last one), an id, the beginning of it, or "last".
Without RUN it is the newest run of .gapless/runs that goes on; where none does, the machine: GPUs,
processors, memory, disks, network, and the processes that use them, trainings first.

It reads what the recorder writes, and /proc and NVML beside it: the training does not notice.
Keys: q quits, p holds the picture, ? shows help; of a run w asks the recorder for a window now;
without one s sorts the processes.

Examples:
  gapless watch
  gapless watch last
  gapless watch --machine                 in place of nvidia-smi dmon, htop and iotop
  gapless watch --once                    the same as text, once; no terminal is needed
  gapless watch --once --json | jq .view.run.cause
  gapless watch --serve 9464              metrics for Prometheus (docs/integrations.md)

"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless.live.view import LiveView, Watcher

SUMMARY = "watch a running training, or the machine, on a screen"
_FIND_RATIO = 100  # times what a look for a running run takes: until the next one


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless watch``."""
    from gapless.commands.options import positive

    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id (the one that goes on)")
    parser.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs (.gapless/runs)"
    )
    parser.add_argument("--machine", action="store_true", help="watch the machine, not a run")
    parser.add_argument("--once", action="store_true", help="print it once as text, and end")
    parser.add_argument(
        "--json", action="store_true", help="with --once: print one JSON object (docs/json.md)"
    )
    parser.add_argument(
        "--interval", metavar="S", type=positive, default=2, help="seconds between looks (2)"
    )
    parser.add_argument("--width", metavar="N", type=positive, help="with --once: columns")
    parser.add_argument(
        "--serve",
        metavar="[HOST:]PORT",
        type=_address,
        help="no screen: serve metrics for Prometheus (127.0.0.1)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Watch until the user ends it, or print what is to be seen once."""
    _check_form(arguments)
    if arguments.serve is not None:
        from gapless.commands.options import tell
        from gapless.live.metrics.serving import serve_metrics

        serve_metrics(arguments.serve, _follow_runs(arguments), arguments.interval, tell)
    watcher = _watcher(arguments)
    if arguments.once:
        from gapless.screen.once import print_once

        print_once(watcher, as_json=arguments.json, width=arguments.width)
        return 0
    return _open_screen(watcher, arguments.interval)


def _check_form(arguments: argparse.Namespace) -> None:
    if arguments.run is not None and arguments.machine:
        raise UsageError("--machine watches the machine; leave out RUN or --machine")
    if arguments.json and not arguments.once:
        raise UsageError("--json prints one moment; add --once")
    if arguments.serve is not None:
        if arguments.once:
            raise UsageError("--serve goes on until it is ended; leave out --once")
        return
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on the last
    if not arguments.once and not all(stream.isatty() for stream in streams):
        raise UsageError("this is no terminal; gapless watch --once prints the same as text")


def _watcher(arguments: argparse.Namespace) -> "Watcher":
    from gapless.live.machine_watcher import MachineWatcher
    from gapless.live.watching import RunWatcher

    if arguments.machine:
        return MachineWatcher()
    folder = _find_run(arguments)
    return MachineWatcher() if folder is None else RunWatcher(folder)


def _follow_runs(arguments: argparse.Namespace) -> "Callable[[LiveView | None], Watcher]":
    """Return what says whom to ask next: without RUN, the newest run that goes on, if any."""
    from gapless.live.machine_watcher import MachineWatcher
    from gapless.live.pauses import Pause
    from gapless.live.watching import RunWatcher

    watcher, pause = _watcher(arguments), Pause(_FIND_RATIO, 0.0)
    is_free = arguments.run is None and not arguments.machine

    def next_watcher(view: "LiveView | None") -> "Watcher":
        nonlocal watcher
        is_over = view is not None and (view.run is None or view.run.status != "running")
        if not is_free or not is_over or not pause.is_due():
            return watcher
        with pause.measure():
            folder = _find_run(arguments)
        if folder is not None:
            watcher = RunWatcher(folder)
        elif isinstance(watcher, RunWatcher):
            watcher = MachineWatcher()
        return watcher

    return next_watcher


def _address(text: str) -> tuple[str, int]:
    """Parse where to listen: 9464, 0.0.0.0:9464, [::1]:9464. Raises what argparse reports."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16
    if not is_port or (":" in host and not host.startswith("[")):
        raise argparse.ArgumentTypeError(f"{text!r} is no [HOST:]PORT; for example 9464")
    return host.strip("[]") or "127.0.0.1", int(port)


def _find_run(arguments: argparse.Namespace) -> Path | None:
    """Return the run to watch; ``None``: none was named, and none goes on."""
    from gapless.store.run import runs

    place = arguments.place or runs.home()
    if arguments.run is None:
        return runs.find_running(place)
    named_path = Path(arguments.run)
    if named_path.is_dir():
        return named_path if runs.is_run(named_path) else runs.find(named_path, runs.LAST_RUN)
    return runs.find(place, arguments.run)


def _open_screen(watcher: "Watcher", interval_s: int) -> int:
    """Show the screen until it is left; return the exit code."""
    try:
        from gapless.screen.app import WatchApp
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("textual"):
            raise
        raise UsageError(
            "the screen needs textual: pip install 'gapless[watch]'; "
            "gapless watch --once prints the same as text without it"
        ) from error
    app = WatchApp(watcher, interval_s)
    app.run()
    return app.return_code or 0
