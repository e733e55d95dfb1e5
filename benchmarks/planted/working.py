"""Work cases off in lanes: plant, measure the truth, record; each kept in a file of its own."""

import difflib
import json
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.planted import truth
from benchmarks.planted.asking import prove, record
from benchmarks.planted.cases import Case
from benchmarks.planted.mutations.catalogue import MUTATIONS
from benchmarks.planted.mutations.plant import Site, plant
from benchmarks.planted.recorder import recorder
from benchmarks.planted.running import Lane, Live, RunError, arm, prepare
from benchmarks.planted.scripts import FetchError, Script, missing, scripts
from benchmarks.planted.source import parse

_STARTING_S: Final = 60.0  # that a script may take beside its counted steps
_AROUND_S: Final = 40.0  # to start both sides, to start and pack a recording
_LEAST_S: Final = 20.0  # of a truth, for a case to be begun
_SLOW: Final = 3  # times the limit of a truth, where steps are slow


@dataclass(frozen=True)
class Wanted:
    """What is asked for: where sources lie, where results go, and how long things may take."""

    sources: Path | None
    out: Path
    seconds: float = 3.0  # of counted steps, to see whether a script runs
    limit_s: float = 60.0  # of the truth of a case
    gpu_limit_s: float = 60.0  # the same on a GPU, which lanes have by turns
    check_s: float = 15.0
    pairs: int = 40  # of turns, at most
    end: float = float("inf")  # of time.monotonic(), by which cases are done
    again: frozenset[str] = frozenset()  # failed, undecided: what is done anew

    @property
    def last_start(self) -> float:
        """Give when the last case may be begun, of whatever kind: else the end holds controls."""
        return self.end - _LEAST_S - self.check_s - _AROUND_S

    def limits(self, device: str) -> truth.Limits:
        """Give the limits of a truth that begins now."""
        left = max(_LEAST_S, self.end - time.monotonic() - self.check_s - _AROUND_S)
        limit_s = self.gpu_limit_s if device == "cuda" else self.limit_s
        return truth.Limits(self.pairs, min(limit_s, left), min(_SLOW * limit_s, left))


@dataclass(frozen=True)
class Planting:
    """What was planted in a file of a case, and which of its lines may be named."""

    mutation: str
    file: str
    lines: tuple[int, ...]
    around: tuple[int, ...]


def smoke(script: Script, lane: Lane, wanted: Wanted) -> dict[str, Any]:
    """Run a script as it is for some seconds: its step time, or why it does not run."""
    lacking = missing(script)
    if lacking:
        return {"failed": f"needs {', '.join(lacking)}"}
    try:
        root = lane.place / "healthy" / script.name
        prepare(script, root, wanted.sources)
        with lane.alone:
            shown = arm(script, root, lane, wanted.seconds, wanted.seconds * 3 + _STARTING_S)
    except (RunError, FetchError, OSError) as error:
        return {"failed": str(error)[-900:]}
    return {"step_s": shown.step_s, "steps": shown.steps, "kind": shown.kind}


def planted(case: Case, root: Path, step_s: float) -> list[Planting]:
    """Plant the faults of a case in the files below a folder. Raises ``RunError`` if one cannot."""
    script = scripts()[case.script]
    done: list[Planting] = []
    for name in case.mutations:
        for file in script.planted_in:
            path = root / file
            before = path.read_text(encoding="utf-8")
            new = plant(MUTATIONS[name], Site(parse(before), step_s, case.device))
            if new is not None:
                path.write_text(new.edited.text, encoding="utf-8")
                done = [_moved(one, file, before, new.edited.text) for one in done]
                done.append(Planting(name, file, new.lines, new.around))
                break
        else:
            raise RunError(f"{name} does not apply to {case.script}")
    return done


def _moved(one: Planting, file: str, before: str, after: str) -> Planting:
    """Give what was planted with its lines as a further change to its file has moved them."""
    if one.file != file:
        return one
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    places = {
        block.a + at + 1: block.b + at + 1
        for block in matcher.get_matching_blocks()
        for at in range(block.size)
    }
    lines = tuple(places.get(line, line) for line in one.lines)
    return Planting(one.mutation, file, lines, tuple(places.get(row, row) for row in one.around))


def work(case: Case, lane: Lane, wanted: Wanted, step_s: float) -> dict[str, Any]:
    """Do what is not done yet of a case, and keep it; give what is kept of it."""
    path = wanted.out / case.half / f"{case.name}.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    kept = without_outdated(kept, wanted.again)
    if "failed" in kept or (kept.get("recorded") and "truth" in kept):
        return kept
    # Amounts of what is planted go by the step: those of the truth hold for the recording, too.
    kept |= {"step_s": kept.get("step_s", step_s), "recorder": recorder(lane)}
    root = lane.place / "planted" / case.name
    try:
        prepare(scripts()[case.script], root, wanted.sources)
        _work(case, lane, wanted, (root, kept))
    except (RunError, FetchError, OSError, SyntaxError) as error:
        if time.monotonic() > wanted.end - wanted.limit_s:
            return kept  # perhaps for want of time: it is done when the run is resumed
        kept["failed"] = f"{type(error).__name__}: {str(error)[-900:]}"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    _keep(path, kept)
    return kept


def prove_named(case: Case, lane: Lane, wanted: Wanted) -> str:
    """Try what was named of a sound case, so that it is known whether it is an alarm; keep it."""
    path = wanted.out / case.half / f"{case.name}.json"
    answered = wanted.out / case.half / "answers" / path.name
    if case.kind not in ("control", "decoy") or not path.exists() or not answered.exists():
        return ""
    kept: dict[str, Any] = json.loads(path.read_text())
    findings = json.loads(answered.read_text()).get("findings") or ()
    fixes = sorted({fix for one in findings for fix in one["helps"]} - set(kept.get("proofs", ())))
    if "failed" in kept or not fixes:
        return ""
    root = lane.place / "proved" / case.name
    try:
        prepare(scripts()[case.script], root, wanted.sources)
        planted(case, root, kept["step_s"])
        proofs = prove(scripts()[case.script], root, lane, fixes)
    except (RunError, FetchError, OSError) as error:
        return f"not proved: {str(error)[-300:]}"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    kept["proofs"] = kept.get("proofs", {}) | proofs
    _keep(path, kept)
    return "proved"


def without_outdated(kept: dict[str, Any], again: frozenset[str]) -> dict[str, Any]:
    """Give what is kept of a case without what is to be done anew."""
    if "failed" in kept:
        dropped = {"failed", "recorded"} if "failed" in again else set[str]()
    else:
        told = (kept.get("truth") or {}).get("verdict")
        dropped = {"truth"} if told == "undecided" and "undecided" in again else set[str]()
    return {name: value for name, value in kept.items() if name not in dropped}


def _work(case: Case, lane: Lane, wanted: Wanted, held: tuple[Path, dict[str, Any]]) -> None:
    root, kept = held
    path = wanted.out / case.half / f"{case.name}.json"
    plantings = [asdict(one) for one in planted(case, root, kept["step_s"])]
    kept |= {"case": asdict(case) | {"kind": case.kind}, "planted": plantings}
    if "truth" not in kept:
        kept["truth"] = None if case.kind == "control" else _truth(case, lane, wanted, root)
        _keep(path, kept)
    if not kept.get("recorded"):
        recording = path.parent / "recordings" / f"{case.name}.tar.zst"
        with lane.alone:
            record(scripts()[case.script], root, lane, recording, wanted.check_s)
        kept["recorded"] = True


def _truth(case: Case, lane: Lane, wanted: Wanted, root: Path) -> dict[str, Any]:
    script = scripts()[case.script]
    healthy = lane.place / "healthy" / case.script
    prepare(script, healthy, wanted.sources)
    found = _side_by_side(script, (healthy, root), lane, wanted.limits(lane.device))
    return found.plain()


def compare_with_itself(script: Script, lane: Lane, wanted: Wanted) -> truth.Truth:
    """Measure a script against itself, laid out twice. Raises ``RunError``, ``FetchError``."""
    roots = (lane.place / "same-a" / script.name, lane.place / "same-b" / script.name)
    for root in roots:
        prepare(script, root, wanted.sources)
    return _side_by_side(script, roots, lane, wanted.limits(lane.device))


def _side_by_side(
    script: Script, roots: tuple[Path, Path], lane: Lane, limits: truth.Limits
) -> truth.Truth:
    def start(place: Path, name: str) -> Callable[[], Live]:
        return lambda: Live(script, place, lane, f"{name}-{place.name}")

    healthy, other = roots
    return truth.measure(start(healthy, "a"), start(other, "b"), (lane.device, lane.alone), limits)


def _keep(path: Path, kept: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def in_lanes(
    lanes: Sequence[Lane], tasks: Sequence[tuple[str, Callable[[Lane], str]]], end: float
) -> None:
    """Do tasks (device and act), each in the next free lane of its device, until ``end``."""
    waiting: dict[str, queue.SimpleQueue[Callable[[Lane], str]]] = {}
    for device, act in tasks:
        waiting.setdefault(device, queue.SimpleQueue()).put(act)

    def keep_on(lane: Lane) -> None:
        rest = waiting.get(lane.device)
        while rest is not None and time.monotonic() < end:
            try:
                act = rest.get_nowait()
            except queue.Empty:
                return
            said = act(lane)
            if said:
                print(f"{lane.device} {lane.number}: {said}", flush=True)

    threads = [threading.Thread(target=keep_on, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
