"""Read traces of torch.profiler, or of others, and print where every nanosecond of a step went.

PATH is a file (JSON, gzip or zstd; what Nsight Systems, XLA, rocprof and Perfetto write), a folder,
a pattern in quotes, or - for standard input; or the URL of one (s3://, gs://, https:// …). Several
files are taken as the ranks of one job. What was read is kept in the cache, so that opening it
again takes no time.

Examples:
  gapless open trace.json.gz
  gapless open ./log --rank 3 --steps 10-20
  gapless open s3://bucket/job/log                  remote files: pip install 'gapless[remote]' s3fs
  gapless open report.sqlite --step "train*"        of Nsight Systems; the steps by their name
  gapless open trace.json --leaf idle.sync          the longest of them, and what is to blame
  gapless open trace.json --by-shape --sort device-total --top 30
  gapless open trace.json --json | jq .account.groups
  gapless open trace.json --csv kernels > kernels.csv
  gapless open trace.json --html trace.html         a page: account, timeline, tables

"""

import argparse

from gapless.errors import UsageError

SUMMARY = "print where the GPU's time went, from traces of torch.profiler"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless open``."""
    parser.usage = "gapless open PATH [PATH ...] [options]"
    from gapless.commands.options import add_depth, add_forms, add_selection

    parser.add_argument("paths", metavar="PATH", nargs="+", help="file, folder, pattern, or -")
    add_selection(parser)
    parser.add_argument(
        "--step", metavar="RANGE", help="ranges of this name, or pattern (*, ?), are the steps"
    )
    parser.add_argument(
        "--sort", metavar="KEY", help="order tables by self-host, device-total, calls …"
    )
    parser.add_argument(
        "--leaf", help="show the longest pieces of a leaf, or of all below a prefix"
    )
    parser.add_argument(
        "--on", metavar="WHERE", help="read the ranks on Ray: local, auto, ray://HOST:PORT"
    )
    add_depth(parser)
    add_forms(parser, of_study=True)


def main(arguments: argparse.Namespace) -> int:
    """Open the paths and print the study of them."""
    from gapless.commands.heap import settle_heap
    from gapless.commands.options import check_file, give_study, progress, study_options
    from gapless.study import open_study

    _check_forms(arguments)
    check_file(arguments)
    settle_heap()
    with progress() as say:
        study = open_study(arguments.paths, study_options(arguments), say)
    give_study(study, arguments)
    return 0


def _check_forms(arguments: argparse.Namespace) -> None:
    """Refuse options that a form cannot follow, instead of silently ignoring them."""
    from gapless.commands.options import writes_file

    if arguments.sort is not None and (arguments.json or arguments.csv is not None):
        raise UsageError("--sort orders what people read; JSON and CSV give whole tables")
    if writes_file(arguments) and (arguments.sort is not None or arguments.leaf is not None):
        raise UsageError("the page sorts tables and shows every leaf; leave --sort and --leaf away")
    if arguments.leaf is not None and arguments.csv is not None:
        raise UsageError("the pieces of a leaf are no table; --leaf has --json and --markdown")
