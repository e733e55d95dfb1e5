"""What the source is like beside what it was, as a table, from what a benchmark measured."""

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).parents[1] / "benchmarks/results/house.json"
House = Mapping[str, Any]
_WIDTH: Final = 118  # characters of a line in the docs
_SPLIT_ROOMS: Final = ("capture", "recorded", "pricing", "roofline")
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
    (
        "state of the recorder outside its one object, handlers of forks",
        lambda house: f"{house['loose_recorder_state']}, {house['fork_handlers']}",
    ),
    ("modules in circles of imports", lambda house: str(house["modules_in_circles"])),
    ("work tree", lambda house: f"{house['tree_bytes'] / 1e6:.1f} MB"),
    (
        "`gapless --help`, processor time",
        lambda house: _describe_command(house["commands"]["help"]),
    ),
    (
        "`gapless report` of a run reported before, likewise",
        lambda house: _describe_command(house["commands"]["report"]),
    ),
    ("`scripts/test` on two processors", lambda house: _describe_tests(house.get("tests"))),
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
    return "\n".join([head, f"|---|{'--:|' * len(houses)}", *rows, "", _describe_growth(houses)])


def _describe_growth(houses: Mapping[str, House]) -> str:
    """Return the lines of each room, and which of them hold what the first revision had not."""
    before, *_, now = (house["rooms"] for house in houses.values())
    sizes = [f"`{room}` {lines:,}" for room, lines in now.items()]
    new_rooms = sorted(now.keys() - before.keys() - set(_SPLIT_ROOMS))
    n_new = sum(now[room] for room in new_rooms)
    n_split = sum(now[room] for room in (*_SPLIT_ROOMS, "study", "replay"))
    n_before = before["study"] + before["replay"]
    origin = f"{_join_names(_SPLIT_ROOMS)} were parts of `study` and `replay`"
    sentences = (
        f"Lines by room: {', '.join(sizes)}.",
        f"{n_new:,} of them do what nothing did before ({_join_names(new_rooms)}).",
        f"{origin}, which had {n_before:,} lines; these six have {n_split:,}.",
    )
    return "\n".join(
        textwrap.fill(sentence, _WIDTH, break_on_hyphens=False, break_long_words=False)
        for sentence in sentences
    )


def _join_names(rooms: Iterable[str]) -> str:
    return ", ".join(f"`{room}`" for room in rooms)


def _describe_tests(tests: Mapping[str, Any] | None) -> str:
    if tests is None:
        return "–"
    minutes, seconds = divmod(round(tests["s"]), 60)
    return f"{minutes} min {seconds} s, {tests['passed']:,} passed (`{tests['revision'][:7]}`)"


def _describe_command(command: Mapping[str, Any]) -> str:
    return f"{command['s']:.2f} s, {command['modules']} modules of gapless"
