"""Write the generated parts of the docs, or with ``--check`` say which are stale.

A page holds ``<!-- generated: NAME -->`` … ``<!-- end -->`` around what a function below gives; the
rest of the page is written by people. ``docs/cli.md`` holds the help texts of the program, and the
report in the README is what the program prints for a run kept with the tests: neither can go stale.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, cast, get_args, get_type_hints

import msgspec
from msgspec import Struct

from gapless.catalogue.fixes import FIXES
from gapless.catalogue.pages import fix_pages, rule_pages
from gapless.catalogue.rules import RULES
from gapless.cli import COMMANDS
from gapless.doctor import pages as doctor_pages
from gapless.live.metrics.exposition import FAMILIES
from gapless.model.leaf import GROUPS, LEAVES, PRINTED, group_of
from gapless.model.tables import Tables
from gapless.report.documents.document import ComparisonObject, StudyObject
from gapless.report.documents.measurements import ExportObject, InputObject
from gapless.report.sections.trials import trial_screen
from gapless.report.text.console import pen_for
from gapless.report.text.names import short_name
from gapless.screen.document import AttachedObject, LiveObject
from gapless.store.run import database, trials
from gapless.store.run.unpack import unpack
from tools import (
    accuracy,
    costs,
    exports,
    foreign,
    gates,
    house,
    many_ranks,
    rooms,
    spoken,
    tunings,
    walks,
)

Makers = Mapping[str, Callable[[], str]]

ROOT: Final = Path(__file__).parents[1]
RECORDED_RUN: Final = ROOT / "tests/data/runs/2026-11-21T17-12-53-8a06.tar.zst"
TRIAL: Final = ROOT / "tests/data/trials/remote.json"
TRIED_FIXES: Final = "--fix more-workers=4 foreach"  # a trial keeps names without values
_PLAIN: Final = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONUTF8": "1"}
_LANGUAGES: Final = {".sbatch": "bash", ".yaml": "yaml", ".py": "python"}
_BLOCK: Final = re.compile(
    r"(?P<open><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL
)


def gapless(*arguments: str, folder: Path = ROOT) -> str:
    """Return what the command line prints in a folder: 100 columns, no colours."""
    process = subprocess.run(
        [sys.executable, "-m", "gapless", *arguments],
        cwd=folder,
        env=os.environ | _PLAIN,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        sys.exit(f"gapless {' '.join(arguments)} failed:\n{process.stdout}{process.stderr}")
    return "\n".join(line.rstrip() for line in process.stdout.strip("\n").splitlines())


def report() -> str:
    """Return the first screen of the recorded run that the tests read."""
    with tempfile.TemporaryDirectory() as folder:
        run = unpack(RECORDED_RUN, Path(folder))
        page = gapless("report", run.name, folder=run.parent).rstrip()
        command = json.loads((run / "run.json").read_text())["command"]
    words = [Path(word).name if word.endswith(".py") else word for word in command]
    return _fence(f"$ gapless run {' '.join(words)}\n{page}")


def trial() -> str:
    """Return what ``gapless try`` said of the trial that is kept with the tests."""
    stream = io.StringIO()
    kept_trial = trials.read(TRIAL)
    pen = pen_for(stream, width=100)
    pen.write(trial_screen(kept_trial, pen))
    page = "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
    return _fence(f"$ gapless try {TRIED_FIXES}\n{page}")


def reading_costs() -> str:
    """Return the table of what opening a trace costs, with links as from ``docs/``."""
    return costs.reading_table().replace("](benchmarks/", "](../benchmarks/")


def recording_costs() -> str:
    """Return the table of what recording costs a training, with links as from ``docs/``."""
    return costs.recording_table().replace("](benchmarks/", "](../benchmarks/")


def beside_costs() -> str:
    """Return what other tools show of one training, with links as from ``docs/``."""
    return costs.beside_table().replace("](benchmarks/", "](../benchmarks/")


def groups() -> str:
    """Return the table of groups: how each is printed, and its leaves."""
    rows = ["| group | printed as | leaves |", "|---|---|---|"]
    for group in GROUPS:
        leaves = ", ".join(f"`{leaf}`" for leaf in LEAVES if group_of(leaf) == group)
        rows.append(f"| {group} | {PRINTED[group]} | {leaves} |")
    return "\n".join(rows)


def table_rows() -> str:
    """Return the list of tables: the name of each, and what a row of it is."""
    rows = ["| table | a row |", "|---|---|"]
    for name, row_types in get_type_hints(Tables).items():
        rows.append(f"| `{name}` | {_first_sentence(get_args(row_types)[0].__doc__)} |")
    return "\n".join(rows).replace("``", "`")


def names() -> str:
    """Return the table of what the report calls each leaf, in the order of its groups."""
    rows = ["| group | in the report | leaf |", "|---|---|---|"]
    leaves = sorted(LEAVES, key=lambda leaf: GROUPS.index(group_of(leaf)))
    rows += [f"| {PRINTED[group_of(leaf)]} | {short_name(leaf)} | `{leaf}` |" for leaf in leaves]
    return "\n".join(rows)


def command_pages() -> str:
    """Return the help text of the program and of each of its commands."""
    parts = ["## gapless", _fence(gapless("--help"))]
    for name in COMMANDS:
        parts += [f"## gapless {name}", _fence(gapless(name, "--help"))]
    return "\n\n".join(parts)


def database_schema() -> str:
    """Return the schema of ``run.sqlite``."""
    return f"```sql\n{database.SCHEMA.read_text(encoding='utf-8').strip()}\n```"


def rule_index() -> str:
    """Return the table of causes: code, name, and the first sentence of the page."""
    rows = ["| cause | what is recognised |", "|---|---|"]
    rows += [f"| {rule.code} {rule.name} | {_first_sentence(rule.doc)} |" for rule in RULES]
    return "\n".join(rows)


def fix_index() -> str:
    """Return the table of fixes: name, the value that it takes, and the first sentence."""
    rows = ["| fix | what it does |", "|---|---|"]
    for fix in FIXES:
        name = fix.name if fix.value is None else f"{fix.name}={fix.value}"
        rows.append(f"| `{name}` | {_first_sentence(fix.doc)} |")
    return "\n".join(rows)


def metric_table() -> str:
    """Return the table of what ``gapless watch --serve`` answers."""
    rows = ["| metric | |", "|---|---|"]
    rows += [f"| `{family}` | {text} |" for family, text in FAMILIES.items()]
    return "\n".join(rows)


def _first_sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def schema(document: type[Struct]) -> str:
    """Return the JSON Schema of what is printed with ``--json``."""
    return _format_schema(msgspec.json.schema(document))


def _format_schema(root: Mapping[str, object]) -> str:
    """Return a JSON Schema with a line for each of its definitions."""
    definitions = root.get("$defs")
    if not isinstance(definitions, dict):
        return json.dumps(root, ensure_ascii=False) + "\n"
    lines = (
        f"  {json.dumps(name)}: {json.dumps(definition, ensure_ascii=False)}"
        for name, definition in cast("dict[str, object]", definitions).items()
    )
    rest = json.dumps({**root, "$defs": None}, ensure_ascii=False)
    body = "{\n" + ",\n".join(lines) + "\n }"
    return rest.replace('"$defs": null', f'"$defs": {body}') + "\n"


def _fence(text: str) -> str:
    return f"```text\n{text}\n```"


def recipe(name: str) -> str:
    """Return a file of the recipes as a block."""
    text = (ROOT / "docs/recipes" / name).read_text(encoding="utf-8").strip()
    return f"```{_LANGUAGES[Path(name).suffix]}\n{text}\n```"


PAGES: Final[Mapping[str, Makers]] = {
    "README.md": {
        "report": report,
        "recording": costs.recording_table,
        "planted": accuracy.planted_sentence,
    },
    "docs/accuracy.md": {
        "planted": accuracy.planted_table,
        "tools": accuracy.tools,
        "alike": accuracy.shared_lines,
        "families": accuracy.families,
        "health": accuracy.health,
        "worst": accuracy.worst,
        "jobs": accuracy.jobs,
        "strangers": accuracy.strangers,
        "again": accuracy.strangers_again,
        "shown": accuracy.gpu_table,
    },
    "docs/json.md": {"tables": table_rows},
    "docs/the-account.md": {"groups": groups, "names": names},
    "docs/compared.md": {
        "beside": beside_costs,
        "tools": accuracy.tools,
        "reading": reading_costs,
        "recording": recording_costs,
    },
    "docs/cost.md": {
        "recording": recording_costs,
        "reading": reading_costs,
        "watching": costs.watching_sentence,
    },
    "docs/predictions.md": {"families": accuracy.families},
    "docs/clusters.md": {
        "many-ranks": many_ranks.ranks_table,
        "many-ranks-wide": partial(many_ranks.ranks_table, "many_ranks_wide.json"),
        "joining": many_ranks.joining_sentence,
        "recipe-slurm": partial(recipe, "train.sbatch"),
        "recipe-pytorchjob": partial(recipe, "pytorchjob.yaml"),
        "recipe-jobset": partial(recipe, "jobset.yaml"),
        "recipe-ray": partial(recipe, "ray_train.py"),
    },
    "docs/cli.md": {"commands": command_pages},
    "docs/doctor.md": {"checks": doctor_pages.check_table, "peaks": doctor_pages.peak_table},
    "docs/development.md": {"rooms": rooms.room_map, "house": house.house_table},
    "docs/export.md": {"exported-cpu": exports.cpu_table, "exported-gpu": exports.gpu_table},
    "docs/foreign-traces.md": {
        "versions": foreign.nsight_versions,
        "opened": foreign.opened_table,
    },
    "docs/errors.md": {"errors": rule_pages.error_pages},
    "docs/fixes.md": {"fixes": fix_index},
    "docs/opening-traces.md": {"cost": reading_costs},
    "docs/rules.md": {"rules": rule_index, "spoken": spoken.spoken_table},
    "docs/trying.md": {"trial": trial},
    "docs/gating.md": {"gates": gates.gate_table},
    "docs/start.md": {"walk": walks.walk_table},
    "docs/tuning.md": {"tunings": tunings.tuning_table},
    "docs/run-folder.md": {"schema": database_schema},
    "docs/integrations.md": {"metrics": metric_table},
    "docs/watch.md": {"watching": costs.watching_sentence},
}
FILES: Final[Makers] = {
    "docs/schema/attach.json": partial(schema, AttachedObject),
    "docs/schema/comparison.json": partial(schema, ComparisonObject),
    "docs/schema/data.json": partial(schema, InputObject),
    "docs/schema/export.json": partial(schema, ExportObject),
    "docs/schema/study.json": partial(schema, StudyObject),
    "docs/schema/watch.json": partial(schema, LiveObject),
}


def fill(page: str, makers: Makers) -> str:
    """Return the page with its generated blocks rewritten. Raises ``KeyError`` for one it lacks."""
    lacking = makers.keys() - {block["name"] for block in _BLOCK.finditer(page)}
    if lacking:
        raise KeyError(*lacking)

    def make(block: re.Match[str]) -> str:
        return f"{block['open']}{makers[block['name']]()}\n{block['close']}"

    return _BLOCK.sub(make, page)


def generate_pages() -> dict[Path, str]:
    """Return all pages and files that hold something generated, as they should be."""
    pages = {ROOT / name: fill(_read(ROOT / name), makers) for name, makers in PAGES.items()}
    return pages | {ROOT / name: maker() for name, maker in FILES.items()}


def write_full_pages(folder: Path) -> None:
    """Write the pages of all rules and fixes, thousands of lines that are not kept in git."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.md").write_text(f"# Causes\n\n{rule_pages.rule_pages()}", encoding="utf-8")
    (folder / "fixes.md").write_text(f"# Fixes\n\n{fix_pages.fix_pages()}", encoding="utf-8")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Write what has changed, or say that it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    parser.add_argument(
        "--pages", type=Path, metavar="FOLDER", help="write every page of a rule or fix there"
    )
    arguments = parser.parse_args()
    if arguments.pages is not None:
        write_full_pages(arguments.pages)
        return 0
    check: bool = arguments.check
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
