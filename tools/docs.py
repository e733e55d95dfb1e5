"""Write the generated parts of the docs, or with ``--check`` say which are stale.

A page holds ``<!-- generated: NAME -->`` … ``<!-- end -->`` around what a function below gives; the
rest of the page is written by people. ``docs/cli.md`` is the help texts of the program itself, and
the report in the README is what the program says of the trace that it ships, so neither can lie.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gapless.model.leaf import GROUPS, LEAVES, PRINTED, group_of

ROOT: Final = Path(__file__).parents[1]
DEMO: Final = ROOT / "src/gapless/demo/resnet50.json.gz"
_WIDTH: Final = 100
_PROGRAM: Final = "import sys; from gapless.cli import main; sys.exit(main())"
_COMMANDS: Final = re.compile(r"\{([a-z,-]+)\}")
_BLOCK: Final = re.compile(
    r"(?P<open><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL
)


def gapless(*arguments: str) -> str:
    """Give what the command line prints for these arguments: 100 columns, no colours."""
    plain = {"COLUMNS": str(_WIDTH), "NO_COLOR": "1", "TERM": "dumb", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=DEMO.parent,
        env=os.environ | plain,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        sys.exit(f"gapless {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def report() -> str:
    """Give the report of the shipped trace, down to its tables."""
    return _fenced(f"$ gapless open {DEMO.name}\n\n" + gapless("open", DEMO.name, "--no-cache"))


def groups() -> str:
    """Give the table of groups: how each is printed, and its leaves."""
    rows = ["| group | printed as | leaves |", "|---|---|---|"]
    for group in GROUPS:
        leaves = ", ".join(f"`{leaf}`" for leaf in LEAVES if group_of(leaf) == group)
        rows.append(f"| {group} | {PRINTED[group]} | {leaves} |")
    return "\n".join(rows)


def command_pages() -> str:
    """Give the help text of the program and of each of its commands."""
    top = gapless("--help")
    found = _COMMANDS.search(top)
    names = found[1].split(",") if found else []
    parts = ["## gapless", _fenced(top)]
    for name in names:
        parts += [f"## gapless {name}", _fenced(gapless(name, "--help"))]
    return "\n\n".join(parts)


PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "README.md": {"report": report},
    "docs/the-account.md": {"groups": groups},
    "docs/cli.md": {"commands": command_pages},
}


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def fill(page: str, makers: Mapping[str, Callable[[], str]]) -> str:
    """Give the page with its generated blocks made anew. Raises ``KeyError`` for one it lacks."""
    lacking = makers.keys() - {block["name"] for block in _BLOCK.finditer(page)}
    if lacking:
        raise KeyError(*lacking)

    def make(block: re.Match[str]) -> str:
        return f"{block['open']}{makers[block['name']]()}\n{block['close']}"

    return _BLOCK.sub(make, page)


def main() -> int:
    """Write what has changed, or say that it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    check: bool = parser.parse_args().check
    stale = 0
    for name, makers in PAGES.items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = fill(old, makers)
        if new == old:
            continue
        stale += 1
        print(f"{name}: {'stale; run python tools/docs.py' if check else 'written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
