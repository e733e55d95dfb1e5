"""What the source is like beside what it was, as a table, from what a benchmark measured."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).parents[1] / "benchmarks/results/house.json"
House = Mapping[str, Any]
ROWS: Final[tuple[tuple[str, Callable[[House], str]], ...]] = (
    ("files, lines in `src`", lambda house: f"{house['files']:,}, {house['lines']:,}"),
    (
        "lines of a function: median, 95 of 100",
        lambda house: f"{house['function_median']:.0f}, {house['function_p95']}",
    ),
    (
        "variables, functions named by a pronoun or participle",
        lambda house: (
            f"{house['variables_without_noun']:.1%}, {house['functions_without_verb']:.1%}"
        ),
    ),
    ("class names for several things", lambda house: str(house["classes_that_share_a_name"])),
    ("folders of more than 15 files", lambda house: str(house["large_folders"])),
    ("modules in circles of imports", lambda house: str(house["modules_in_circles"])),
    ("work tree", lambda house: f"{house['tree_bytes'] / 1e6:.1f} MB"),
    ("`gapless --help`", lambda house: _describe_command(house["commands"]["help"])),
    (
        "`gapless report` of a run reported before",
        lambda house: _describe_command(house["commands"]["report"]),
    ),
)


def house_table(result: Path = RESULT) -> str:
    """Return a row for each figure, of all revisions that were measured."""
    houses: dict[str, House] = json.loads(result.read_text(encoding="utf-8"))["houses"]
    head = f"| | {' | '.join(f'`{revision[:7]}`' for revision in houses)} |"
    rows = (
        f"| {name} | {' | '.join(describe(house) for house in houses.values())} |".replace(
            "%", " %"
        )
        for name, describe in ROWS
    )
    return "\n".join([head, f"|---|{'--:|' * len(houses)}", *rows])


def _describe_command(command: Mapping[str, Any]) -> str:
    return f"{command['s']:.2f} s, {command['modules']} modules of gapless"
