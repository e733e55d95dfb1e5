"""The generated tables of ``docs/accuracy.md``: all tools, families of changes, the worst ten."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

GAPLESS: Final = "gapless"
RESULTS: Final = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
ZOO_RESULT: Final = RESULTS / "accuracy.json"
JOBS_RESULT: Final = RESULTS / "jobs.json"
STRANGERS_RESULT: Final = RESULTS / "strangers.json"
STRANGERS_AGAIN: Final = RESULTS / "strangers_again.json"
GPU_RESULT: Final = RESULTS / "shown_on_gpu.json"
PLANTED_RESULT: Final = RESULTS / "planted.json"
_NOT_MEASURED: Final = "This has not been measured yet."
_GPU_TRAININGS: Final = {
    "story": "ResNet-50 on a folder of JPEG files, `num_workers=0`",
    "decoy": "twenty numbers read back in each step, at no cost",
    "healthy": "nothing to gain",
}
_FAMILIES: Final = ("all", "structural", "kernels", "feed", "copy", "sync", "host", "tail", "comm")
Figures = Mapping[str, Any]


def planted_table(result: Path = PLANTED_RESULT) -> str:
    """Return the figures of faults planted in other people's trainings, the unseen half first."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
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
        *("decoys named", "sound, named", "of them false", "gain error", "covered", "touch"),
        "withheld",
    )
    lines = [
        _planted_row(name, row[device])
        for side, row in figures["halves"].items()
        for name, device in ((f"**{side}**", "all"), ("… CPU", "cpu"), ("… GPU", "cuda"))
        if row[device]["cases"]
    ]
    return "\n".join([*head, *lines])


def planted_sentence(result: Path = PLANTED_RESULT) -> str:
    """Return one sentence: how often the first cause was right, and what the tuned set says."""
    planted, zoo = _read(result), _read(ZOO_RESULT)
    if planted is None or zoo is None or "unseen" not in planted["halves"]:
        return _NOT_MEASURED
    unseen, tuned = planted["halves"]["unseen"]["all"], zoo["tools"][GAPLESS]
    return (
        "Of faults planted in other people's training scripts, and not looked at while rules were "
        f"written, the first cause named is right in {_share(unseen['first'])}, and no cause is "
        f"named in {_share(unseen['nothing_named'])}; on the recordings that the rules were tuned "
        f"on, the first cause is right in {_share(tuned['first'])}. The samples are small: "
        "[how often it is right](docs/accuracy.md)."
    )


def _planted_row(name: str, figures: Figures) -> str:
    error, n_errors = figures["gain_error_points"], figures["gain_error_of"]
    cells = [
        str(figures["cases"]),
        str(figures["undecided"]),
        _share(figures["first"]),
        _share(figures["first_three"]),
        _share(figures["three_with_trials"]),
        _share(figures["nothing_named"]),
        _share(figures["decoys_named"]) if "decoys_named" in figures else "not counted",
        _sum_shares(figures["alarms"], figures["alarms_controls"]),
        _proofs(figures["alarms_proved"]),
        f"{_number(error, 1)} ({n_errors})" if n_errors else "–",
        _share(figures["covered"]),
        _share(figures["touch_truth"]),
        _share(figures["withheld"]),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _sum_shares(*shares: Figures) -> str:
    count, total = (sum(share[name] for share in shares) for name in ("count", "of"))
    return _share({"count": count, "of": total, "share": count / total if total else None})


def _proofs(outcomes: Figures) -> str:
    """Return how many causes of sound cases trials showed to be false, true, or left open."""
    return f"{outcomes['false']} ({outcomes['true']} true, {outcomes['open']} open)"


def tools(result: Path = ZOO_RESULT) -> str:
    """Return the table of what gapless and the baselines name, and how well they predict."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    records, order = (
        figures["records"],
        [GAPLESS, *(name for name in figures["tools"] if name != GAPLESS)],
    )
    head = _head(
        *("", "best first", "among three", "regret, mean", "p90", "false alarms", "undecided"),
        *("per report", "answered", "gain error", "ranking"),
    )
    lines = [_tool(name, figures["tools"][name]) for name in order]
    summary = (
        f"{records['all']} records: {records['faulty']} faulty, {records['sound']} sound, "
        f"{records['undecided']} undecided; {records['matter']} have a remedy worth 5 % and more. "
        f"Rules and thresholds: `{figures['thresholds']}`, {figures['date']}."
    )
    return "\n".join([*head, *lines, "", summary])


def _tool(name: str, figures: Figures) -> str:
    gains = figures["gains"]["all"]
    cells = [
        _share(figures["first"]),
        _share(figures["first_three"]),
        _percent(figures["regret_mean"]),
        _percent(figures["regret_p90"]),
        _share(figures["false_alarms"]),
        _share(figures["open_alarms"]),
        _number(figures["false_per_report"], 2),
        _share(figures["answered"]),
        f"{_number(gains['error_points'], 1)} ({gains['of']})" if gains["of"] else "–",
        f"{_number(figures['kendall'], 2)} ({figures['kendall_of']})"
        if figures["kendall_of"]
        else "–",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def shared_lines(result: Path = ZOO_RESULT) -> str:
    """Return the errors of all that predict, on the lines that gapless predicts."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    lines = [*_head("on the same lines", "of", "error, points", "bias", "rate", "sign")]
    for name, tool_figures in figures["alike"].items():
        if tool_figures["of"]:
            lines.append(f"| {name} | {tool_figures['of']} | {' | '.join(_errors(tool_figures))} |")
    return "\n".join(lines)


def families(result: Path = ZOO_RESULT) -> str:
    """Return how well gapless predicts, by what is changed."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    gains: Mapping[str, Figures] = figures["tools"][GAPLESS]["gains"]
    head = _head(
        *("changes of", "of", "error, points", "bias", "rate", "sign"),
        *("within the interval", "its width", "Winkler"),
    )
    lines = [
        f"| {name} | {gain['of']} | {' | '.join([*_errors(gain), *_intervals(gain)])} |"
        for name in _FAMILIES
        if (gain := gains.get(name)) is not None and gain["of"]
    ]
    rough = figures["tools"][GAPLESS]["rough_gains"]
    cells = [*_errors(rough), *_intervals(rough)]
    lines.append(f"| all, rough measurements included | {rough['of']} | {' | '.join(cells)} |")
    return "\n".join([*head, *lines])


def _errors(figures: Figures) -> list[str]:
    return [
        _number(figures["error_points"], 1),
        _number(figures["bias_points"], 1, signed=True),
        _percent(figures["rate_error"]),
        _share(figures["signs"]),
    ]


def _intervals(figures: Figures) -> list[str]:
    return [
        _share(figures["covered"]),
        _number(figures["width_points"], 1),
        _number(figures["winkler_points"], 1),
    ]


def health(result: Path = ZOO_RESULT) -> str:
    """Return what must hold of every record: sums, identity, steady leaves."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    checks = figures["health"]
    rows = [
        ("accounts that do not sum to the nanosecond", f"{checks['inexact']} of {checks['of']}"),
        (
            "replayed unchanged, at most 2 % off the trace; the others are refused",
            _share(checks["identity"]),
        ),
        ("… median", _percent(checks["identity_median"])),
        (
            "replayed unchanged, off the un-profiled step: median",
            _percent(checks["anchored_median"]),
        ),
        ("leaves of neighbouring windows differ by: median", _percent(checks["unsteady_median"])),
    ]
    return "\n".join(["| | |", "|---|--:|", *(f"| {label} | {value} |" for label, value in rows)])


def worst(result: Path = ZOO_RESULT) -> str:
    """Return the ten predictions that were furthest off, and why."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    lines = ["| case | change | predicted | measured | points | why |", "|---|---|--:|--:|--:|---|"]
    for miss in figures["worst"]:
        low, mid, high = (miss["predicted"][name] for name in ("low", "mid", "high"))
        lines.append(
            f"| {miss['case']} | {miss['line']} | {mid:.2f}× ({low:.2f}–{high:.2f}) "
            f"| {miss['measured']['mid']:.2f}× | {miss['points']:+.1f} "
            f"| {miss['cause'] or 'not looked into yet'} |"
        )
    return "\n".join(lines)


def jobs(result: Path = JOBS_RESULT) -> str:
    """Return what was said of each training of several ranks, beside what was planted."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    rows = [_job_row(name, case) for name, case in figures["cases"].items()]
    return "\n".join([*_head("training", "named first", "right", "foretold", "measured"), *rows])


def _job_row(name: str, case: Figures) -> str:
    gains = (case["predicted"], case["measured"])
    predicted, measured = ("–" if gain is None else _ratio(gain) for gain in gains)
    if case.get("at_most") is not None:
        predicted = f"at most {_ratio(case['at_most'])}"
    right = "yes" if case["is_right"] else "worth too little" if case["is_slight"] else "no"
    return f"| `{name}` | {case['first'] or 'nothing'} | {right} | {predicted} | {measured} |"


def strangers(result: Path = STRANGERS_RESULT) -> str:
    """Return the figures of gapless on trainings that its rules were not made with."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    return f"{tools(result)}\n\n{worst(result)}"


def strangers_again(result: Path = STRANGERS_AGAIN) -> str:
    """Return the figures on the same trainings, with rules that were improved on them."""
    return tools(result)


def gpu_table(result: Path = GPU_RESULT) -> str:
    """Return what was said of three trainings on a GPU, and what a trial made of it."""
    figures = _read(result)
    if figures is None:
        return _NOT_MEASURED
    head = ("| training | named | predicted | measured by `gapless try` | found, not named |",)
    line = "|---|---|---|---|---|"
    return "\n".join((*head, line, *(_gpu_row(name, figures[name]) for name in _GPU_TRAININGS)))


def _gpu_row(name: str, figures: Figures) -> str:
    named = (
        ", ".join(f"{finding['code']} {finding['name']}" for finding in figures["findings"])
        or "nothing"
    )
    present = (
        ", ".join(f"{finding['code']} {finding['name']}" for finding in figures["present"]) or "–"
    )
    trials = figures.get("trials") or ()
    predicted = "; ".join(_ratio(trial["predicted"]) for trial in trials) or "–"
    measured = (
        "; ".join(f"{_ratio(trial['speedup'])} {trial['verdict']}" for trial in trials) or "–"
    )
    return f"| {_GPU_TRAININGS[name]} | {named} | {predicted} | {measured} | {present} |"


def _ratio(estimate: Figures | None) -> str:
    return (
        "–"
        if estimate is None
        else f"{estimate['mid']:.2f}× ({estimate['low']:.2f}–{estimate['high']:.2f})"
    )


def _head(*names: str) -> tuple[str, str]:
    """Return the head of a table whose columns hold numbers, but for the first."""
    return f"| {' | '.join(names)} |", "|---|" + "--:|" * (len(names) - 1)


def _read(path: Path) -> Figures | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _share(share: Figures) -> str:
    return "–" if not share["of"] else f"{share['share']:.0%} ({share['count']}/{share['of']})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int, *, signed: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if signed else ''}.{digits}f}"
