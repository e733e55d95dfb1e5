"""From the payload's document to what was exported: rounds to percentiles and intervals."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec import Struct

from gapless.errors import GaplessError
from gapless.export import catching
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.model_export import (
    ExportFailure,
    ModelExport,
    ModelInput,
    ModelSubject,
    ModelWay,
    OutputDifference,
    WayCost,
)
from gapless.verify import in_place
from gapless.verify.arms import compare

EAGER: Final = "eager"
_BURST: Final = "burst"
_MIN_CALLS: Final = 100  # of which the slowest hundredth is known
_ENDING: Final = "it ended, and no model was caught: none of its modules with parameters was called"

Rounds = Sequence[Sequence[float]]  # ns of each call, by round
Document = Mapping[str, Any]


class ExportTask(Struct, frozen=True):
    """What is asked for, and the id of the run that it is about, if there is one."""

    plan: catching.ExportPlan
    run: str | None


def export_model(task: ExportTask, report_progress: in_place.Progress) -> ModelExport:
    """Export, check and measure; what was interrupted is returned as far as it got.

    Raises ``GaplessError`` where no model was caught, and ``KeyboardInterrupt`` where nothing came
    of it before that.
    """
    catching.check_place(task.plan.out)
    record = catching.run_arm(task.plan, report_progress)
    document = record.document
    if (document is None or not document["subject"].get("ways")) and record.interrupted:
        raise KeyboardInterrupt
    if document is None or not document["subject"].get("ways"):
        raise GaplessError(_describe_lack(record))
    return build_export(task, document, record)


def _describe_lack(record: in_place.TakeoverRecord) -> str:
    """Say in plain words why no model was exported."""
    why = in_place.describe_failure(record) or _ENDING
    printed = [line for line in in_place.last_lines(record.output) if why not in line]
    output_words = f"; it printed last: {' / '.join(printed)}" if printed else ""
    return f"no model was exported: {why}{output_words}"


def build_export(
    task: ExportTask, document: Document, record: in_place.TakeoverRecord
) -> ModelExport:
    """Return what a document says."""
    subject = document["subject"]
    is_complete = bool(document["complete"]) and not record.interrupted
    failed = None if is_complete else _describe_end(document, record)
    ways = tuple(
        _build_way(name, entry, document, is_complete=is_complete)
        for name, entry in subject["ways"].items()
    )
    has_files = any(way.files for way in ways)
    return ModelExport(
        command=task.plan.command,
        run=task.run,
        folder=str(task.plan.out) if has_files else None,
        subject=_build_subject(subject),
        ways=ways,
        processor=subject.get("processor"),
        torch=subject.get("torch"),
        threads=subject.get("threads"),
        notes=tuple(document["notes"]),
        is_complete=is_complete,
        failed=failed,
    )


def _describe_end(document: Document, record: in_place.TakeoverRecord) -> str | None:
    if record.interrupted:
        return "interrupted: nothing was written, and what was measured until then is shown"
    why = in_place.describe_failure(record) or "it left no word"
    return why if document["failed"] else f"the command ended while its model was exported: {why}"


# ── Ways ────────────────────────────────────────────────────────────────────────────────────────


def _build_way(
    name: str, entry: Mapping[str, Any], document: Document, *, is_complete: bool
) -> ModelWay:
    """Return a way; files of one that was not brought to its end are gone."""
    parity, failure = entry["parity"], entry["failure"]
    return ModelWay(
        name=name,
        files=tuple((file, size) for file, size in entry["files"]) if is_complete else (),
        costs=tuple(_costs(name, document)),
        made_s=entry.get("made_s"),
        first_call_s=entry.get("first_call_s"),
        memory=entry.get("memory"),
        parity=None if parity is None else _build_difference(parity),
        failure=None if failure is None else _build_failure(failure),
        why=entry["why"],
    )


def _costs(name: str, document: Document) -> Iterator[WayCost]:
    """Yield what a way costs at each batch size, or why that is not known."""
    series, absent = document["series"], document["absent"]
    batches = [batch for batch in {**series, **absent} if not batch.endswith(_BURST)]
    for batch in sorted(batches, key=_size_of):
        rounds: Rounds = series.get(batch, {}).get(name, ())
        why = absent.get(batch, {}).get(name)
        if rounds:
            bursts: Rounds = series.get(f"{batch} {_BURST}", {}).get(name, ())
            yield build_cost(
                batch, rounds, bursts, series[batch].get(EAGER, ()), is_compared=name != EAGER
            )
        elif why is not None:
            yield WayCost(batch, why=why)


def _size_of(batch: str) -> int:
    return int(batch) if batch.isdecimal() else 0


def build_cost(
    batch: str,
    rounds: Rounds,
    bursts: Rounds,
    eager: Rounds,
    *,
    is_compared: bool,  # it is not the model itself
) -> WayCost:
    """Return percentiles of all calls, rows a second, and the speed-up over the same rounds.

    Rows are those of calls for which nobody waited, where there is a device.
    """
    times = np.fromiter(chain.from_iterable(rounds), np.float64)
    mean_ns = float(np.mean([np.mean(call_times) for call_times in (bursts or rounds)]))
    return WayCost(
        batch,
        p50_ns=float(np.quantile(times, 0.5)),
        p99_ns=float(np.quantile(times, 0.99)) if len(times) >= _MIN_CALLS else None,
        rows_per_s=int(batch) * 1e9 / mean_ns if batch.isdecimal() else None,
        speedup=_estimate(eager, rounds) if is_compared else None,
        calls=len(times),
        rounds=len(rounds),
    )


def _estimate(eager: Rounds, rounds: Rounds) -> Estimate | None:
    """Return how many times as fast a way is, by the medians of the same rounds."""
    pairs = [
        (np.array([np.median(own_value)]), np.array([np.median(other_value)]))
        for own_value, other_value in zip(eager, rounds, strict=False)
    ]
    return compare.estimate_speedup(pairs)


# ── Values of the document ──────────────────────────────────────────────────────────────────────


def _build_subject(values: Mapping[str, Any]) -> ModelSubject:
    return ModelSubject(
        name=values["class"],
        location=_location(values.get("file"), values.get("line")),
        parameters=int(values["parameters"]),
        dtype=values["dtype"],
        device=values["device"],
        autocast=values["autocast"],
        inputs=tuple(
            ModelInput(
                name=entry["name"],
                dtype=entry.get("dtype"),
                shape=tuple(entry.get("shape", ())),
                varied=tuple(entry.get("varied", ())),
                free=tuple(entry.get("free", ())),
                value=entry.get("value"),
            )
            for entry in values["inputs"]
        ),
        batch=values["batch"],
        batch_lack=values["batch_lack"] or None,
        forwards=int(values.get("forwards") or 0),
        weights=values.get("weights") or "as caught",
        was_training=bool(values.get("was_training")),
        is_steady=bool(values.get("is_steady", True)),
    )


def _location(file: str | None, line: int | None) -> Location | None:
    return None if file is None else Location(file, line or 0)


def _build_difference(values: Mapping[str, Any]) -> OutputDifference:
    return OutputDifference(
        is_within=bool(values["within"]),
        batch=values["batch"],
        output=values.get("output"),
        dtype=values.get("dtype"),
        share=values.get("share"),
        tolerance=values.get("tolerance"),
        position=tuple(values.get("at", ())),
        own_value=values.get("own"),
        other_value=values.get("other"),
        why=values.get("why"),
    )


def _build_failure(values: Mapping[str, Any]) -> ExportFailure:
    return ExportFailure(
        error=values["error"],
        construct=values["construct"],
        help=values["help"],
        location=_location(values["file"], values["line"]),
        source=values["source"],
    )
