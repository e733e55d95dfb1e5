"""What the scripts draw: step times, sampled series and the picture of a window, as columns."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.leaf import GROUPS, LEAVES, PRINTED
from gapless.model.picture import Forecast, Picture
from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.model.trace import Int64
from gapless.page.calls import flame_columns
from gapless.report.sections.summary import row_ns
from gapless.report.text.names import short_name
from gapless.report.text.numbers import duration, unit_for
from gapless.report.text.text import clean, kernel_name

_MAX_POINTS: Final = 4000  # step times that are drawn; outliers are drawn all the same
_MAX_LISTED: Final = 12  # outliers that have a button, the longest
_FENCE: Final = 1.5  # interquartile ranges above the third quartile: Tukey's outlier
_MIN_EXCESS: Final = 0.05  # of the median: what is less above it stands out nowhere
_MAX_NAME: Final = 300  # characters of a name: a kernel's may have thousands
_NS_PER_S: Final = 1e9


class _StepColumns(Struct, frozen=True):
    """Steps to draw, a row each."""

    places: Sequence[float | int | None]  # on the axis
    numbers: Sequence[int | None]
    lengths: Int64  # ns
    texts: Sequence[str]
    spans: Sequence[Sequence[int] | None]  # in the picture
    profiled: Sequence[int]


def chart_columns(study: Study) -> dict[str, Any]:
    """Return what there is to draw; what was not recorded has no key."""
    recorded = study.recorded
    charts: dict[str, Any] = {"groups": {group: PRINTED[group] for group in GROUPS}}
    steps = _run_steps(recorded, study.picture) if recorded is not None else _trace_steps(study)
    if steps is not None:
        charts["steps"] = steps
    if recorded is not None and recorded.pace is not None and recorded.machine:
        charts["series"] = _series(recorded, recorded.pace.span_ns)
    if recorded is not None and recorded.calls:
        charts["calls"] = flame_columns(recorded.calls)
    if study.picture is not None and study.picture.strips:
        charts["picture"] = _picture(study.picture)
    if study.forecast is not None:
        charts["forecast"] = _picture(_join_pictures(study.forecast))
    return charts


def _run_steps(recorded: RecordedRun, picture: Picture | None) -> dict[str, Any] | None:
    pace = recorded.pace
    if pace is None or not len(pace.lengths_ns):
        return None
    starts = (pace.ends_ns - pace.lengths_ns) / _NS_PER_S
    texts = [
        f"{'under a profiler, ' if profiled else ''}at {start:,.2f} s"
        for profiled, start in zip(pace.profiled.tolist(), starts.tolist(), strict=True)
    ]
    starts_ns = pace.ends_ns - pace.lengths_ns
    offset = None if picture is None else picture.run_offset_ns
    spans = [
        None
        if offset is None or picture is None or end <= offset or start >= offset + picture.length_ns
        else [start - offset, end - offset]
        for start, end in zip(starts_ns.tolist(), pace.ends_ns.tolist(), strict=True)
    ]
    return {
        "axis": "seconds since the command started",
        "end": pace.span_ns / _NS_PER_S,
        **_points(
            _StepColumns(
                starts.tolist(),
                range(1, len(starts) + 1),
                pace.lengths_ns,
                texts,
                spans,
                pace.profiled.tolist(),
            )
        ),
    }


def _trace_steps(study: Study) -> dict[str, Any] | None:
    rows = [row for row in study.account.rows if row.row.step is not None]
    if study.account.steps is None or not rows:
        return None
    many_ranks = len({row.row.rank for row in rows}) > 1
    texts = [
        (f"rank {row.row.rank}, " if many_ranks else "")
        + ", ".join(
            f"{PRINTED[group]} {duration(ns)}"
            for group, ns in sorted(row.groups.items(), key=lambda item: -item[1])
            if ns
        )
        for row in rows
    ]
    lengths = np.array([row_ns(row) for row in rows], np.int64)
    numbers = [row.row.step for row in rows]
    drawn = {} if study.picture is None else {step.number: step for step in study.picture.steps}
    spans = [
        [step.start, step.end] if (step := drawn.get(row.row.step or 0)) else None for row in rows
    ]
    steps = _StepColumns(numbers, numbers, lengths, texts, spans, [0] * len(rows))
    return {"axis": "step", **_points(steps)}


def _points(steps: _StepColumns) -> dict[str, Any]:
    """Return points with their outliers; of many steps those between are thinned out."""
    lengths, numbers = steps.lengths, steps.numbers
    unit = unit_for(float(np.median(lengths)))
    is_outlier = find_outliers(lengths)
    stride = -(-len(lengths) // _MAX_POINTS)
    indices = np.flatnonzero(is_outlier | (np.arange(len(lengths)) % stride == 0)).tolist()
    longest = sorted(
        (position for position, index in enumerate(indices) if is_outlier[index]),
        key=lambda position: -int(lengths[indices[position]]),
    )[:_MAX_LISTED]
    return {
        "unit": unit.name,
        "stride": stride,
        "outliers": int(is_outlier.sum()),
        "listed": [
            [position, f"{numbers[indices[position]]}: {duration(int(lengths[indices[position]]))}"]
            for position in sorted(longest)
        ],
        "x": [steps.places[index] for index in indices],
        "y": [int(lengths[index]) / unit.ns for index in indices],
        "number": [numbers[index] for index in indices],
        "text": [f"{duration(int(lengths[index]))} · {steps.texts[index]}" for index in indices],
        "span": [steps.spans[index] for index in indices],
        "outlier": [int(is_outlier[index]) for index in indices],
        "profiled": [steps.profiled[index] for index in indices],
    }


def find_outliers(lengths: Int64) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Flag the steps that take far longer than the others (Tukey's upper fence)."""
    low, median, high = np.quantile(lengths, (0.25, 0.5, 0.75))
    fence = max(high + _FENCE * (high - low), median * (1 + _MIN_EXCESS))
    return lengths > fence


def _series(recorded: RecordedRun, span_ns: int) -> list[Mapping[str, Any]]:
    return [
        {
            "title": clean(series.title),
            "unit": series.unit,
            "points": series.points,
            "ceiling": series.ceiling,
            "end": span_ns / _NS_PER_S,
        }
        for series in recorded.machine
    ]


def _join_pictures(forecast: Forecast) -> Picture:
    """Return both steps of a forecast as one picture, the one below the other."""
    before, after = forecast.before, forecast.after
    shift = len(before.names)
    after_strips = [
        replace(
            strip,
            title=f"predicted: {strip.title}",
            name=np.where(strip.name >= 0, strip.name + shift, -1).astype(np.int32),
        )
        for strip in after.strips
    ]
    before_strips = [replace(strip, title=f"now: {strip.title}") for strip in before.strips]
    return replace(
        before,
        length_ns=max(before.length_ns, after.length_ns),
        names=(*before.names, *after.names),
        strips=(*before_strips, *after_strips),
        steps=(),
    )


def _picture(picture: Picture) -> dict[str, Any]:
    return {
        "length": picture.length_ns,
        "names": [kernel_name(clean(name))[:_MAX_NAME] for name in picture.names],
        "groups": GROUPS,
        "leaves": [short_name(leaf) for leaf in LEAVES],
        "steps": [[step.number, step.start, step.end] for step in picture.steps],
        "strips": [
            {
                "title": clean(strip.title),
                "kind": strip.kind.value,
                "start": strip.start.tolist(),
                "end": strip.end.tolist(),
                "name": strip.name.tolist(),
                "leaf": strip.leaf.tolist(),
                "group": strip.group.tolist(),
                "depth": strip.depth.tolist(),
            }
            for strip in picture.strips
        ],
    }
