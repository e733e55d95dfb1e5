"""The generated tables of ``docs/accuracy.md``: all tools, families of changes, the worst ten."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

OURS: Final = "gapless"
RESULTS: Final = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
ZOO: Final = RESULTS / "accuracy.json"
STRANGERS: Final = RESULTS / "strangers.json"
AGAIN: Final = RESULTS / "strangers_again.json"
SHOWN: Final = RESULTS / "shown_on_gpu.json"
PLANTED: Final = RESULTS / "planted.json"
_NOT_YET: Final = "This has not been measured yet."
_ACTS: Final = {
    "story": "ResNet-50 on a folder of JPEG files, `num_workers=0`",
    "decoy": "twenty numbers read back in each step, which cost nothing",
    "healthy": "nothing to gain",
}
_FAMILIES: Final = ("all", "structural", "kernels", "feed", "copy", "sync", "host", "tail", "comm")
Found = Mapping[str, Any]


def planted(result: Path = PLANTED) -> str:
    """Give the figures of faults planted in trainings of others, the unseen half first."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    head = _head(
        *(
            "half",
            "cases",
            "undecided",
            "first cause",
            "among three",
            "with trials",
            "nothing named",
        ),
        *("alarms, decoys", "alarms, controls", "gain error", "covered", "touch", "withheld"),
    )
    lines = [
        _planted(name, row[device])
        for side, row in found["halves"].items()
        for name, device in ((f"**{side}**", "all"), ("… CPU", "cpu"), ("… GPU", "cuda"))
        if row[device]["cases"]
    ]
    return "\n".join([*head, *lines])


def planted_briefly(result: Path = PLANTED) -> str:
    """Return one sentence: how often the first cause was right, and what the tuned set says."""
    kept, zoo = _read(result), _read(ZOO)
    if kept is None or zoo is None or "unseen" not in kept["halves"]:
        return _NOT_YET
    unseen, tuned = kept["halves"]["unseen"]["all"], zoo["tools"][OURS]
    return (
        "Of faults planted in training scripts of others, unseen while rules were written, the "
        f"first cause named is right in {_share(unseen['first'])}, and none is named in "
        f"{_share(unseen['nothing_named'])}; on the records that rules were tuned with it is "
        f"{_share(tuned['first'])}. So few cases say little yet: [how often it is right]"
        "(docs/accuracy.md)."
    )


def _planted(name: str, told: Found) -> str:
    error, of = told["gain_error_points"], told["gain_error_of"]
    cells = [
        str(told["cases"]),
        str(told["undecided"]),
        _share(told["first"]),
        _share(told["first_three"]),
        _share(told["three_with_trials"]),
        _share(told["nothing_named"]),
        _share(told["alarms"]),
        _share(told["alarms_controls"]),
        f"{_number(error, 1)} ({of})" if of else "–",
        _share(told["covered"]),
        _share(told["touch_truth"]),
        _share(told["withheld"]),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def tools(result: Path = ZOO) -> str:
    """Give the table of what gapless and the baselines name, and how well they foretell."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    records, order = found["records"], [OURS, *(one for one in found["tools"] if one != OURS)]
    head = _head(
        *("", "best first", "among three", "regret, mean", "p90", "false alarms", "undecided"),
        *("per report", "answered", "gain error", "ranking"),
    )
    lines = [_tool(name, found["tools"][name]) for name in order]
    said = (
        f"{records['all']} records: {records['faulty']} faulty, {records['sound']} sound, "
        f"{records['undecided']} undecided; {records['matter']} have a remedy worth 5 % and more. "
        f"Rules and thresholds: `{found['thresholds']}`."
    )
    return "\n".join([*head, *lines, "", said])


def _tool(name: str, told: Found) -> str:
    gains = told["gains"]["all"]
    cells = [
        _share(told["first"]),
        _share(told["first_three"]),
        _percent(told["regret_mean"]),
        _percent(told["regret_p90"]),
        _share(told["false_alarms"]),
        _share(told["open_alarms"]),
        _number(told["false_per_report"], 2),
        _share(told["answered"]),
        f"{_number(gains['error_points'], 1)} ({gains['of']})" if gains["of"] else "–",
        f"{_number(told['kendall'], 2)} ({told['kendall_of']})" if told["kendall_of"] else "–",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def alike(result: Path = ZOO) -> str:
    """Give the errors of all that predict, on the lines that gapless predicts."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    lines = [*_head("on the same lines", "of", "error, points", "bias", "rate", "sign")]
    for name, told in found["alike"].items():
        if told["of"]:
            lines.append(f"| {name} | {told['of']} | {' | '.join(_errors(told))} |")
    return "\n".join(lines)


def families(result: Path = ZOO) -> str:
    """Give how well gapless foretells, by what is changed."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    gains: Mapping[str, Found] = found["tools"][OURS]["gains"]
    head = _head(
        *("changes of", "of", "error, points", "bias", "rate", "sign"),
        *("within the interval", "its width", "Winkler"),
    )
    lines = [
        f"| {name} | {one['of']} | {' | '.join([*_errors(one), *_intervals(one)])} |"
        for name in _FAMILIES
        if (one := gains.get(name)) is not None and one["of"]
    ]
    rough = found["tools"][OURS]["rough_gains"]
    cells = [*_errors(rough), *_intervals(rough)]
    lines.append(f"| all, and what was measured roughly | {rough['of']} | {' | '.join(cells)} |")
    return "\n".join([*head, *lines])


def _errors(told: Found) -> list[str]:
    return [
        _number(told["error_points"], 1),
        _number(told["bias_points"], 1, signed=True),
        _percent(told["rate_error"]),
        _share(told["signs"]),
    ]


def _intervals(told: Found) -> list[str]:
    return [
        _share(told["covered"]),
        _number(told["width_points"], 1),
        _number(told["winkler_points"], 1),
    ]


def health(result: Path = ZOO) -> str:
    """Give what must hold of every record: sums, identity, steady leaves."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    told = found["health"]
    rows = [
        ("accounts that do not sum to the nanosecond", f"{told['inexact']} of {told['of']}"),
        (
            "replayed unchanged, off the trace by 2 % at most; refused: not",
            _share(told["identity"]),
        ),
        ("… median", _percent(told["identity_median"])),
        ("replayed unchanged, off the un-profiled step: median", _percent(told["anchored_median"])),
        ("leaves of neighbouring windows differ by: median", _percent(told["unsteady_median"])),
    ]
    return "\n".join(["| | |", "|---|--:|", *(f"| {what} | {value} |" for what, value in rows)])


def worst(result: Path = ZOO) -> str:
    """Give the ten predictions that were furthest off, and why."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    lines = ["| case | change | predicted | measured | points | why |", "|---|---|--:|--:|--:|---|"]
    for one in found["worst"]:
        low, mid, high = (one["predicted"][name] for name in ("low", "mid", "high"))
        lines.append(
            f"| {one['case']} | {one['line']} | {mid:.2f}× ({low:.2f}–{high:.2f}) "
            f"| {one['measured']['mid']:.2f}× | {one['points']:+.1f} "
            f"| {one['cause'] or 'not looked into yet'} |"
        )
    return "\n".join(lines)


def strangers(result: Path = STRANGERS) -> str:
    """Give the figures of gapless on trainings that its rules were not made with."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    return f"{tools(result)}\n\n{worst(result)}"


def again(result: Path = AGAIN) -> str:
    """Give the figures of gapless on the same trainings, with rules that were mended with them."""
    return tools(result)


def shown(result: Path = SHOWN) -> str:
    """Give what was said of three trainings on a GPU, and what a trial made of it."""
    found = _read(result)
    if found is None:
        return _NOT_YET
    head = ("| training | named | foretold | measured by `gapless try` | seen, and not named |",)
    line = "|---|---|---|---|---|"
    return "\n".join((*head, line, *(_shown(name, found[name]) for name in _ACTS)))


def _shown(name: str, told: Found) -> str:
    named = ", ".join(f"{one['code']} {one['name']}" for one in told["findings"]) or "nothing"
    seen = ", ".join(f"{one['code']} {one['name']}" for one in told["present"]) or "–"
    trials = told.get("trials") or ()
    foretold = "; ".join(_ratio(one["predicted"]) for one in trials) or "–"
    measured = "; ".join(f"{_ratio(one['speedup'])} {one['verdict']}" for one in trials) or "–"
    return f"| {_ACTS[name]} | {named} | {foretold} | {measured} | {seen} |"


def _ratio(told: Found | None) -> str:
    return "–" if told is None else f"{told['mid']:.2f}× ({told['low']:.2f}–{told['high']:.2f})"


def _head(*names: str) -> tuple[str, str]:
    """Give the head of a table whose columns hold numbers, but for the first."""
    return f"| {' | '.join(names)} |", "|---|" + "--:|" * (len(names) - 1)


def _read(path: Path) -> Found | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _share(told: Found) -> str:
    return "–" if not told["of"] else f"{told['share']:.0%} ({told['count']}/{told['of']})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int, *, signed: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if signed else ''}.{digits}f}"
