"""Serve coding agents by the Model Context Protocol: runs, account, findings, trials, patches.

A client starts it and speaks with it through standard input and output; it opens no port. Tools
read what is below --root, wherever links lead, and write nothing: try is there with --allow-trials
(the training is run, in a private view of its folder), and fix answers with a diff, which it
applies only with --allow-writes.

For a client that is configured by JSON:
  {"mcpServers": {"gapless": {
    "command": "gapless", "args": ["mcp", "--root", "/my/project"]}}}

Examples:
  gapless mcp
  gapless mcp --root /my/project --root /shared/runs
  gapless mcp --allow-trials

"""

import argparse
from pathlib import Path

SUMMARY = "serve coding agents (MCP): findings, trials, patches"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless mcp``."""
    parser.add_argument(
        "--root", metavar="DIR", type=Path, action="append",
        help="tools see what is below it (the current folder); may be named several times",
    )  # fmt: skip
    parser.add_argument(
        "--allow-trials", action="store_true", help="tools may run the training to measure edits"
    )
    parser.add_argument(
        "--allow-writes", action="store_true", help="tools may write proven fixes into the source"
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve until the client closes our input."""
    import gc
    import sys

    from gapless.agents.confinement import confine
    from gapless.agents.server import AgentServer
    from gapless.agents.tools import AgentRights
    from gapless.commands.options import tell

    confinement = confine(arguments.root or [Path.cwd()])
    rights = AgentRights(confinement, arguments.allow_trials, arguments.allow_writes)
    if sys.stdin.isatty():
        tell("this waits for a client that speaks MCP through standard input; Ctrl-C ends it")
    gc.enable()  # this process may live for days
    AgentServer(rights, sys.stdout.buffer).serve(sys.stdin.buffer)
    return 0
