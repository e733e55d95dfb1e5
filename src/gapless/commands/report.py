"""Print where the time of a recorded run went: its steps, the whole command, loaders, machine.

RUN is the folder of a run, a folder of runs (its last one), an id, the beginning of it, or "last",
which is what is printed without one. A run that goes on is reported as far as it is recorded.
Of a job on several machines each has its own run: several RUNs are joined, and so are those of the
last job in a folder that the machines share, or at the URL where gapless run --gather copied them.

Examples:
  gapless report                               the first screen: why, where, three causes, what next
  gapless report --full
  gapless report --section loaders --section machine
  gapless report 2026-11-21 --price 2.5        an hour of one GPU costs 2.5
  gapless report last --rank 3
  gapless report node0/runs node1/runs         a job on two machines
  gapless report --json | jq .timeline
  gapless report --markdown > report.md
  gapless report --html run.html               a page: account, steps, timeline, tables

"""

import argparse
from pathlib import Path

SUMMARY = "print where the time of a recorded run went"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless report``."""
    parser.usage = "gapless report [RUN ...] [options]"
    from gapless.commands.options import add_depth, add_forms, add_selection
    from gapless.commands.tracking import add_log_to

    parser.add_argument("run", metavar="RUN", nargs="*", help="folders or ids (last)")
    parser.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs (.gapless/runs)"
    )
    parser.add_argument("--price", metavar="P", type=float, help="what an hour of one GPU costs")
    add_selection(parser)
    parser.add_argument("--sort", metavar="KEY", help="order tables by self-host, calls …")
    parser.add_argument("--by", choices=["host"], help="compare the machines of a job, alone")
    add_depth(parser)
    add_forms(parser, of_study=True)
    add_log_to(parser)


def main(arguments: argparse.Namespace) -> int:
    """Read the run and print the study of it."""
    from msgspec.structs import replace

    from gapless.commands.options import check_file, give_study, progress, study_options, tell
    from gapless.commands.tracking import check_log_to, log_to_trackers
    from gapless.store.run import runs
    from gapless.study import open_job

    check_file(arguments)
    check_log_to(arguments)
    if arguments.by:
        arguments.section = [*(arguments.section or ()), "hosts"]
    home = arguments.place or runs.home()
    folders = [folder for name in arguments.run or ["last"] for folder in _find_runs(name, home)]
    with progress() as say:
        study = open_job(folders, replace(study_options(arguments), price=arguments.price), say)
    give_study(study, arguments)
    for sentence in log_to_trackers(study, arguments):
        tell(sentence)
    return 0


def _find_runs(name: str, home: Path) -> tuple[Path, ...]:
    """Return the run of a name; of a folder of runs the last one, and those of the same job.

    What lies elsewhere is brought here first.
    """
    from gapless.remote.files import is_url, strip_file_url
    from gapless.store.run import jobs, runs

    named_path = _fetch_runs(name, home) if is_url(name) else Path(strip_file_url(name))
    if named_path.is_dir() and runs.is_run(named_path):
        return (named_path,)
    if named_path.is_dir():
        return jobs.find_job_runs(runs.find(named_path, runs.LAST_RUN))
    folder = runs.find(home, name)
    return jobs.find_job_runs(folder) if name == runs.LAST_RUN else (folder,)


def _fetch_runs(url: str, home: Path) -> Path:
    """Return the copy of a remote folder; what was brought before is not brought again."""
    from gapless.commands.options import progress
    from gapless.remote.folders import fetch_copy

    with progress() as say:
        say("fetching runs")
        return fetch_copy(url, home.parent / "gathered")
