"""The whole measurement: the command as far as its loader, its storage, its steps by replay."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import GaplessError
from gapless.feeding import arm, outlook, storage
from gapless.feeding.estimates import estimate_speedup, estimate_time
from gapless.feeding.loaders import describe_lack, find_training_loader
from gapless.model.edit import Applicability, Location
from gapless.model.estimate import Estimate
from gapless.model.input_costs import (
    InputCosts,
    InputSubject,
    PixelDifference,
    StageCost,
    StorageSpeed,
)
from gapless.model.recording import Recording
from gapless.recorded.facts import facts
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run
from gapless.study.run_constants import find_interpreter
from gapless.verify import in_place
from gapless.verify.requests import survey_fixes

if TYPE_CHECKING:
    from gapless.model.facts import Loader

NOW: Final = "now"
_WHOLE: Final = "whole"
# What other ways are compared with, where that is not the stage as it is now: the present decoder
# on the same bytes, reading from where files lie, a loader without workers given one.
_COMPARED: Final = {
    "decode": "as now, alone",
    "shrink": "as now, alone",
    "hand-over": "from a worker",
    "touch": "from a worker",
    "floats": outlook.FLOATS_ON_HOST,
}
_FIXES: Final = {  # by way
    "read ahead, cold": "read-ahead",
    "samples kept": "sample-cache",
    "pictures kept": "picture-cache",
    "recycled buffer": "recycled-collate",
    "uint8 batch": "uint8-to-device",
    outlook.FLOATS_ON_DEVICE: "uint8-in-loop",
    outlook.BY_LENGTH: "length-buckets",
    "nvJPEG on the GPU": "decode-on-device",
    "DALI": "decode-by-dali",
    "simplejpeg": "jpeg-decoder=simplejpeg",
    "OpenCV": "jpeg-decoder=opencv",
    "PyTurboJPEG": "jpeg-decoder=turbojpeg",
    "torchvision.io": "jpeg-decoder=torchvision",
}
_OTHER_FIXES: Final = {"uint8-to-device": "uint8-by-hand"}  # the same, for other data sets
_DRAFT: Final = "Pillow, draft"
_COLD_READ: Final = "now, cold"
_COLD: Final = ", cold"
# in the order in which a batch goes through them
_STAGES: Final = (
    "read",
    "decode",
    "augment",
    "shrink",
    "tokenise",
    "rest",
    "sample",
    "collate",
    "hand-over",
    "touch",
    "pin",
    "copy",
    "floats",
)

Progress = Callable[[str], None]
Series = Mapping[str, Mapping[str, Sequence[float]]]  # by stage and way: ns of each round


class InputTask(Struct, frozen=True):
    """What is asked for, and the run that it is about, if there is one."""

    plan: arm.InputPlan
    recording: Recording | None


def measure_input(task: InputTask, report_progress: Progress) -> InputCosts:
    """Measure; what was interrupted is returned as far as it got.

    Raises ``GaplessError`` where the command has no loader to measure, and ``KeyboardInterrupt``
    where nothing was measured before that.
    """
    record = arm.run_arm(task.plan, report_progress)
    document = record.document
    if document is None and record.interrupted:
        raise KeyboardInterrupt
    if document is None or not (document["series"] or document["subject"]):
        raise GaplessError(describe_lack(record))
    costs = list_costs(document)
    failed = _describe_failure(document, record)
    if not costs:
        raise GaplessError(failed or describe_lack(record))
    interrupted = record.interrupted
    speeds: tuple[StorageSpeed, ...] = ()
    if not interrupted and document["files"]:
        try:
            speeds = _measure_storage(task, record, document["files"], report_progress)
        except KeyboardInterrupt:
            interrupted = True
    step_ns: float | None = None
    step_note: str | None = "no recorded run to replay: gapless run, and then gapless data"
    if interrupted:
        step_note = "it was interrupted"
    elif task.recording is not None:
        with suppress(KeyboardInterrupt):
            costs, step_ns, step_note = _foretell(task.recording, costs, report_progress)
    return InputCosts(
        command=task.plan.command,
        run=None if task.recording is None else task.recording.manifest.id,
        subject=_describe_subject(document["subject"]),
        samples=int(document["subject"].get("samples") or 0),
        costs=costs,
        storage=speeds,
        files=len(document["files"]),
        run_step_ns=step_ns,
        step_note=step_note,
        notes=tuple(_list_notes(document, interrupted=interrupted)),
        is_complete=bool(document["complete"]) and not interrupted,
        failed=failed,
    )


def _measure_storage(
    task: InputTask,
    record: in_place.TakeoverRecord,
    files: Sequence[str],
    report_progress: Progress,
) -> tuple[StorageSpeed, ...]:
    recording = record.recording or task.recording
    interpreter = None if recording is None else find_interpreter(recording)
    if interpreter is None:
        return ()
    return storage.measure_storage(interpreter.python, files, report_progress)


def _foretell(
    recording: Recording, costs: tuple[StageCost, ...], report_progress: Progress
) -> tuple[tuple[StageCost, ...], float | None, str | None]:
    """Return the costs with steps by replay, the run's own step, and why there are none."""
    loader = find_training_loader(facts(recording).loaders)
    if loader is None:
        return costs, None, "the recorded run shows no loader that feeds it"
    report_progress("replaying the loader of the run")
    try:
        prices = prices_of_run(account_run(recording, Options(), report_progress), cached=True)
    except GaplessError as error:
        return costs, None, str(error)
    step_ns = prices.evidence.step_ns
    if step_ns is None:
        return costs, None, "the recorded run has no steps"
    foretold, why = outlook.predict_steps(costs, prices, loader)
    buckets = outlook.predict_buckets(prices, loader)
    if buckets is not None and buckets.step_ns is not None:
        foretold = (*foretold, buckets)
    foretold = _name_fixes(foretold, recording)
    has_any = any(cost.step_ns is not None for cost in foretold)
    return foretold, step_ns, None if has_any or why is None else why


def _name_fixes(costs: tuple[StageCost, ...], recording: Recording) -> tuple[StageCost, ...]:
    """Name the fixes that do what was measured, as far as they fit the run."""
    classes = {
        proposal.fix: proposal.applicability
        for proposal in survey_fixes(facts(recording))
        if proposal.refused is None and proposal.edits
    }
    return tuple(
        replace(cost, fix=name, is_risky=classes[name.partition("=")[0]] is Applicability.RISKY)
        if (name := _name_fix(cost.way, classes)) is not None
        else cost
        for cost in costs
    )


def _name_fix(way: str, fitting: Container[str]) -> str | None:
    name = "reduced-decoding" if way.startswith(_DRAFT) else _FIXES.get(way, "")
    names = (name, _OTHER_FIXES.get(name, ""))
    return next((name for name in names if name.partition("=")[0] in fitting), None)


# ── From the payload's document to costs ────────────────────────────────────────────────────────


def list_costs(document: Mapping[str, Any]) -> tuple[StageCost, ...]:
    """Return each stage as it is, followed by the other ways to do it, fastest first."""
    series: Series = document["series"]
    pixels = {
        (entry["stage"], entry["variant"]): PixelDifference(entry["max"], entry["mean"])
        for entry in document["pixels"]
        if "max" in entry
    }
    costs: list[StageCost] = []
    for stage in _STAGES:
        ways, absent = series.get(stage, {}), document["absent"].get(stage, {})
        if ways or absent:
            costs += _costs_of_stage(stage, ways, absent, pixels)
    return tuple(costs)


def _costs_of_stage(
    stage: str,
    ways: Mapping[str, Sequence[float]],
    absent: Mapping[str, str],
    pixels: Mapping[tuple[str, str], PixelDifference],
) -> Iterator[StageCost]:
    now = ways.get(NOW) or ways.get(_WHOLE) or ()
    if now or NOW in absent:
        yield StageCost(
            stage,
            NOW,
            is_now=True,
            sample_ns=estimate_time(now),
            rounds=len(now),
            why=None if now else absent[NOW],
        )
    other_ways = [
        StageCost(
            stage,
            way,
            is_now=False,
            sample_ns=estimate_time(rounds),
            speedup=_compare(stage, way, ways, now),
            pixels=pixels.get((stage, way)),
            rounds=len(rounds),
        )
        for way, rounds in ways.items()
        if way not in {NOW, _WHOLE}
    ]
    yield from sorted(other_ways, key=_order_of)
    for way, why in absent.items():
        if way != NOW and way not in ways:
            yield StageCost(stage, way, is_now=False, why=why)


def _compare(
    stage: str, way: str, ways: Mapping[str, Sequence[float]], now: Sequence[float]
) -> Estimate | None:
    """Return how many times as fast a way is as what it would take the place of."""
    base = _COLD_READ if way.endswith(_COLD) else _COMPARED.get(stage, NOW)
    compared = ways.get(base) or ([] if way.endswith(_COLD) else now)
    return None if way == base or not compared else estimate_speedup(compared, ways[way])


def _order_of(cost: StageCost) -> tuple[bool, bool, float]:
    """Sort what others are compared with first, reads from where files lie last."""
    is_base = cost.way in {_COLD_READ, *_COMPARED.values()}
    ns = 0.0 if cost.sample_ns is None else cost.sample_ns.mid
    return cost.way.endswith(_COLD), not is_base, ns


def _describe_subject(values: Mapping[str, Any]) -> InputSubject:
    batch: Mapping[str, Any] = values.get("batch") or {}
    file, line = values.get("file"), int(values.get("line") or 0)
    return InputSubject(
        location=None if file is None else Location(file, line),
        dataset=values.get("dataset"),
        length=values.get("length"),
        batch_size=values.get("batch_size"),
        num_workers=int(values.get("num_workers") or 0),
        collate=values.get("collate"),
        library=values.get("library"),
        batch_bytes=batch.get("bytes"),
        batch_parts=tuple(batch.get("types", ())),
    )


def _describe_failure(document: Mapping[str, Any], record: in_place.TakeoverRecord) -> str | None:
    failed = document["failed"]
    if failed is not None:
        return str(failed["why"])
    if document["complete"] or record.interrupted:
        return None
    outcome = record.arm
    why = None if outcome is None else outcome.failed
    return f"the command ended while its input was measured: {why or 'it left no word'}"


def _list_notes(document: Mapping[str, Any], *, interrupted: bool) -> Iterator[str]:
    if interrupted:
        yield "interrupted: what was measured until then is shown"
    yield from document["notes"]


def loader_lines(recording: Recording | None) -> tuple[Location, ...]:
    """Return the lines at which the loaders that fed a run were made; none without a run."""
    if recording is None:
        return ()
    loaders: Sequence[Loader] = facts(recording).loaders
    lines = [
        loader.location
        for loader in loaders
        if loader.trains and loader.stands_in is None and loader.location is not None
    ]
    return tuple(dict.fromkeys(lines))
