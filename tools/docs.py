"""Write the generated parts of the docs, or with ``--check`` say which are stale.

A page holds ``<!-- generated: NAME -->`` … ``<!-- end -->`` around what a function below gives; the
rest of the page is written by people. ``docs/cli.md`` is the help texts of the program itself, and
the report in the README is what the program says of the trace that it ships, so neither can lie.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gapless.catalogue import pages, rule_pages
from gapless.cli import COMMANDS
from gapless.model.leaf import GROUPS, LEAVES, PRINTED, group_of
from gapless.report.document import ComparisonObject, StudyObject, schema
from gapless.report.names import short_name
from gapless.report.pen import pen_for
from gapless.report.trials import trial_screen
from gapless.store import database, trials
from tools import accuracy, costs, spoken

Makers = Mapping[str, Callable[[], str]]

ROOT: Final = Path(__file__).parents[1]
RUNS: Final = ROOT / "tests/data/runs"
TRIAL: Final = ROOT / "tests/data/trials/remote.json"
TRIED_FIXES: Final = "--fix more-workers=4 foreach"  # which a trial does not tell with its values
STORY: Final = "2026-11-21T17-12-53-8a06"
_PLAIN: Final = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONUTF8": "1"}
_BLOCK: Final = re.compile(
    r"(?P<open><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL
)


def gapless(*arguments: str) -> str:
    """Give what the command line prints for these arguments: 100 columns, no colours."""
    process = subprocess.run(
        [sys.executable, "-m", "gapless", *arguments],
        cwd=RUNS,
        env=os.environ | _PLAIN,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        sys.exit(f"gapless {' '.join(arguments)} failed:\n{process.stdout}{process.stderr}")
    return "\n".join(line.rstrip() for line in process.stdout.strip("\n").splitlines())


def report() -> str:
    """Give the first screen of the recorded run that the tests read."""
    page = gapless("report", STORY).rstrip()
    command = json.loads((RUNS / STORY / "run.json").read_text())["command"]
    words = [Path(word).name if word.endswith(".py") else word for word in command]
    return _fence(f"$ gapless run {' '.join(words)}\n{page}")


def trial() -> str:
    """Give what ``gapless try`` said of the trial that is kept with the tests."""
    stream = io.StringIO()
    kept_trial = trials.read(TRIAL)
    pen = pen_for(stream, width=100)
    pen.write(trial_screen(kept_trial, pen))
    page = "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
    return _fence(f"$ gapless try {TRIED_FIXES}\n{page}")


def groups() -> str:
    """Give the table of groups: how each is printed, and its leaves."""
    rows = ["| group | printed as | leaves |", "|---|---|---|"]
    for group in GROUPS:
        leaves = ", ".join(f"`{leaf}`" for leaf in LEAVES if group_of(leaf) == group)
        rows.append(f"| {group} | {PRINTED[group]} | {leaves} |")
    return "\n".join(rows)


def names() -> str:
    """Give the table of what the report calls each leaf, in the order of its groups."""
    rows = ["| group | in the report | leaf |", "|---|---|---|"]
    leaves = sorted(LEAVES, key=lambda leaf: GROUPS.index(group_of(leaf)))
    rows += [f"| {PRINTED[group_of(leaf)]} | {short_name(leaf)} | `{leaf}` |" for leaf in leaves]
    return "\n".join(rows)


def command_pages() -> str:
    """Give the help text of the program and of each of its commands."""
    parts = ["## gapless", _fence(gapless("--help"))]
    for name in COMMANDS:
        parts += [f"## gapless {name}", _fence(gapless(name, "--help"))]
    return "\n\n".join(parts)


def database_schema() -> str:
    """Give the schema of ``run.sqlite``."""
    return f"```sql\n{database.SCHEMA.read_text(encoding='utf-8').strip()}\n```"


def study_schema() -> str:
    """Give the JSON Schema of what ``gapless open --json`` prints."""
    return json.dumps(schema(StudyObject), indent=2, ensure_ascii=False) + "\n"


def comparison_schema() -> str:
    """Give the JSON Schema of what ``gapless compare --json`` prints."""
    return json.dumps(schema(ComparisonObject), indent=2, ensure_ascii=False) + "\n"


def _fence(text: str) -> str:
    return f"```text\n{text}\n```"


PAGES: Final[Mapping[str, Makers]] = {
    "README.md": {
        "report": report,
        "trial": trial,
        "recording": costs.recording_table,
        "cost": costs.reading_table,
        "planted": accuracy.planted_sentence,
    },
    "docs/accuracy.md": {
        "planted": accuracy.planted_table,
        "tools": accuracy.tools,
        "alike": accuracy.shared_lines,
        "families": accuracy.families,
        "health": accuracy.health,
        "worst": accuracy.worst,
        "strangers": accuracy.strangers,
        "again": accuracy.strangers_again,
        "shown": accuracy.gpu_table,
    },
    "docs/the-account.md": {"groups": groups, "names": names},
    "docs/cli.md": {"commands": command_pages},
    "docs/errors.md": {"errors": rule_pages.error_pages},
    "docs/fixes.md": {"fixes": pages.fix_pages},
    "docs/rules.md": {"rules": rule_pages.rule_pages, "spoken": spoken.spoken_table},
    "docs/run-folder.md": {"schema": database_schema},
}
FILES: Final[Makers] = {
    "docs/schema/comparison.json": comparison_schema,
    "docs/schema/study.json": study_schema,
}


def fill(page: str, makers: Makers) -> str:
    """Give the page with its generated blocks made anew. Raises ``KeyError`` for one it lacks."""
    lacking = makers.keys() - {block["name"] for block in _BLOCK.finditer(page)}
    if lacking:
        raise KeyError(*lacking)

    def make(block: re.Match[str]) -> str:
        return f"{block['open']}{makers[block['name']]()}\n{block['close']}"

    return _BLOCK.sub(make, page)


def generate_pages() -> dict[Path, str]:
    """Give all pages and files that hold something generated, as they should be."""
    pages = {ROOT / name: fill(_read(ROOT / name), makers) for name, makers in PAGES.items()}
    return pages | {ROOT / name: maker() for name, maker in FILES.items()}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Write what has changed, or say that it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    check: bool = parser.parse_args().check
    stale = {path: text for path, text in generate_pages().items() if text != _read(path)}
    for path, text in stale.items():
        state = "stale; run python -m tools.docs" if check else "written"
        print(f"{path.relative_to(ROOT)}: {state}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
