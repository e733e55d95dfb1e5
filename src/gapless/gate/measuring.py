"""Run the arms of a gate: sets of neighbours in alternating order, each a fresh process."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.errors import GaplessError
from gapless.gate.figures import BASE, NEW, ArmFigures, add_blocks, add_slices, read_figures
from gapless.launch.trial import offline, sandbox
from gapless.model.recording import Recording
from gapless.verify.arms import arm, room
from gapless.verify.arms.alternating import plan_turns, run_pair
from gapless.verify.arms.steady import ArmSteps, read_steps
from gapless.verify.specs import ArmSpec, TurnPlan
from gapless.verify.trial import logging_edits

_MAX_STEPS: Final = 1_000_000  # of the first arm, which ends by time
_MIN_STEPS: Final = 40  # of an arm: ten of warm-up, and blocks
_MAX_ARM_S: Final = 60.0  # of stepping, where steps are long
_MAX_PAIR_S: Final = 600.0  # of a pair that steps in turns, pauses and starts included
_WINDOW_STEPS: Final = 60  # more, so that a window fits behind the warm-up
_TAIL_LINES: Final = 15

Progress = Callable[[str], None]
IsDone = Callable[[Sequence[ArmFigures]], bool]


class SourceSide(Struct, frozen=True):
    """The source that arms of one side run: its root, the working folder, its environment."""

    name: str  # BASE or NEW
    top: Path
    folder: Path
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


class ArmRunner(Struct, frozen=True):
    """How the arms of a gate are run."""

    command: tuple[str, ...]
    out: Path  # the folder that gets their records
    arm_s: float  # of stepping
    report_progress: Progress
    stop_step: int = _MAX_STEPS
    apart: bool = False  # both arms of a pair do not step in turns
    turns: TurnPlan | None = None  # how they do
    why_apart: str | None = None  # why they do not

    def plan_after(self, recording: Recording) -> "ArmRunner":
        """Return the runner whose arms stop where an arm that is not counted did.

        The arms of a pair step in turns where that is possible. Raises ``GaplessError`` where the
        arm made no steps.
        """
        steps = read_steps(recording)
        if steps is None:
            raise GaplessError("the command made no two steps: there is nothing to judge")
        count = len(steps.ends)
        if count < _MIN_STEPS:  # steps are long, or the training is short
            step_s = float(steps.lengths.mean()) / 1e9
            count = min(_MIN_STEPS, max(count, int(_MAX_ARM_S / step_s)))
        why, turns = self.explain_no_turns(recording), plan_turns(steps)
        if why is None and turns is None:
            why = f"{self.arm_s:.3g} s hold too few steps for turns (--arm)"
        return replace(self, stop_step=count, turns=None if why else turns, why_apart=why)

    def explain_no_turns(self, recording: Recording) -> str | None:
        """Return why two arms like a recorded one cannot run at the same time; ``None``: they can.

        Of several ranks both arms would want the same ports.
        """
        if self.apart:
            return "as asked for"
        if sum(process.role == "training" for process in recording.processes) > 1:
            return "several processes train"
        return room.explain_lack(recording.samples)

    def record_pair(
        self, first: SourceSide, second: SourceSide, index: int
    ) -> tuple[Recording, Recording] | None:
        """Run an arm of each side in turns; return their records, ``None`` if one failed."""
        sides = (first, second)
        specs = [
            replace(
                self._spec(side, index, windowed=False),
                stop_step=self.turns.stop_step if self.turns else self.stop_step,
                seconds=_MAX_PAIR_S,
                turns=self.turns,
                has_first_turn=side is first,
            )
            for side in sides
        ]
        results = run_pair(
            [(self._plan(side), spec) for side, spec in zip(sides, specs, strict=True)]
        )
        recordings = [recording for outcome, recording in results if outcome.failed is None]
        if len(recordings) < len(sides) or recordings[0] is None or recordings[1] is None:
            return None
        return recordings[0], recordings[1]

    def record(self, side: SourceSide, index: int, *, windowed: bool = False) -> Recording:
        """Run an arm, once more if it failed; return its records.

        Raises ``GaplessError`` with the end of what it printed where it fails twice.
        """
        for is_last in (False, True):
            outcome, recording = arm.run(
                self._plan(side), self._spec(side, index, windowed=windowed)
            )
            if outcome.failed is None and recording is not None:
                return recording
            if is_last:
                break
        raise GaplessError(_explain(side, outcome.failed, outcome.folder))

    def _plan(self, side: SourceSide) -> arm.ArmPlan:
        logs = self.out / "offline"
        has_view = sandbox.explain_unavailable(side.folder) is None
        return arm.ArmPlan(
            command=self.command,
            out=self.out,
            private_folder=side.folder if has_view else None,
            variables={**offline.variables(os.environ, logs), **side.variables},
            close=False,
            folder=side.folder,
        )

    def _spec(self, side: SourceSide, index: int, *, windowed: bool) -> ArmSpec:
        is_first = self.stop_step == _MAX_STEPS
        stop = self.stop_step + _WINDOW_STEPS * windowed
        seconds = self.arm_s if is_first else max(_MAX_ARM_S, 4 * self.arm_s)
        return ArmSpec(
            side.name, index, logging_edits(self.out / "offline"), stop, seconds, windowed
        )


def run_set(
    runner: ArmRunner,
    sides: Sequence[SourceSide],
    pairs: tuple[int, int],
    is_done: IsDone,
    first: int = 0,
) -> tuple[ArmFigures, ...]:
    """Run turns of one arm of each side, in alternating order, until they suffice.

    ``pairs``: turns at least and at most; ``is_done`` may end it between. It must not look at the
    effect, only at how well it is known. ``first`` is the number of the first turn.
    """
    if runner.turns is not None and len(sides) == len((BASE, NEW)):
        return _run_alternating(runner, sides, pairs, is_done, first)
    return _run_apart(runner, sides, pairs, is_done, first)


def _run_apart(
    runner: ArmRunner,
    sides: Sequence[SourceSide],
    pairs: tuple[int, int],
    is_done: IsDone,
    first: int,
) -> tuple[ArmFigures, ...]:
    arms: list[tuple[ArmFigures, ArmSteps]] = []
    for number in range(pairs[1]):
        turn = first + number
        for side in _order(sides, turn):
            runner.report_progress(f"arm {len(arms) + 1}: {side.name}")
            arms.append(_measure(runner, side, turn))
        if number + 1 >= pairs[0] and is_done(add_blocks(arms)):
            break
    return add_blocks(arms)


def _run_alternating(
    runner: ArmRunner,
    sides: Sequence[SourceSide],
    pairs: tuple[int, int],
    is_done: IsDone,
    first: int,
) -> tuple[ArmFigures, ...]:
    """Run pairs that step in turns; where one fails that way, run all apart."""
    arms: tuple[ArmFigures, ...] = ()
    for number in range(pairs[1]):
        turn = first + number
        order = _order(sides, turn)
        runner.report_progress(f"pair {number + 1}: {order[0].name} and {order[1].name} in turns")
        pair = _measure_pair(runner, order, turn)
        if pair is None:
            runner.report_progress("the arms of a pair cannot run at the same time")
            return _run_apart(replace(runner, turns=None), sides, pairs, is_done, first)
        arms = (*arms, *pair)
        if number + 1 >= pairs[0] and is_done(arms):
            break
    return arms


def _order(sides: Sequence[SourceSide], turn: int) -> Sequence[SourceSide]:
    return sides if turn % 2 == 0 else tuple(reversed(sides))


def _measure_pair(
    runner: ArmRunner, sides: Sequence[SourceSide], turn: int
) -> tuple[ArmFigures, ...] | None:
    """Run a pair in turns, once more if an arm failed; ``None`` where it fails again."""
    for _ in range(2):
        recordings = runner.record_pair(sides[0], sides[1], turn)
        steps = [read_steps(recording) for recording in recordings or ()]
        if recordings is None or runner.turns is None or None in steps:
            continue
        figures = [
            read_figures(recording, side.name, turn, side.top, windowed=False)
            for recording, side in zip(recordings, sides, strict=True)
        ]
        known_steps = [arm_steps for arm_steps in steps if arm_steps is not None]
        arms = add_slices(list(zip(figures, known_steps, strict=True)), runner.turns)
        if len(arms) == len(sides):
            return arms
    return None


def run_windows(
    runner: ArmRunner, sides: Sequence[SourceSide], count: int
) -> tuple[ArmFigures, ...]:
    """Run arms that take a window, which splits the account: so many of each side."""
    arms: list[tuple[ArmFigures, ArmSteps]] = []
    for turn in range(count):
        for side in sides:
            runner.report_progress(f"arm with a window, {turn + 1} of {count}: {side.name}")
            arms.append(_measure(runner, side, turn, windowed=True))
    return add_blocks(arms)


def find_foreign_source(recording: Recording, base: SourceSide, new: SourceSide) -> str | None:
    """Return a file of the new side that an arm of the base side ran; ``None``: it ran its own."""
    own, other = base.top.resolve(), new.top.resolve()
    for process in recording.processes:
        files = [fact.file for fact in process.facts if fact.file]
        files += [frame[0] for stack in process.stacks for frame in stack.frames]
        for file in dict.fromkeys(files):
            path = Path(file)
            is_theirs = path.is_relative_to(other) and not path.is_relative_to(own)
            if is_theirs and not {"site-packages", "lib"} & set(path.parts):
                return str(path.relative_to(other))
    return None


def _measure(
    runner: ArmRunner, side: SourceSide, turn: int, *, windowed: bool = False
) -> tuple[ArmFigures, ArmSteps]:
    recording = runner.record(side, turn, windowed=windowed)
    steps = read_steps(recording)
    if steps is None:
        raise GaplessError(f"an arm of {side.name} made no two steps")
    return read_figures(recording, side.name, turn, side.top, windowed=windowed), steps


def _explain(side: SourceSide, why: str | None, folder: str | None) -> str:
    tail: list[str] = []
    with suppress(OSError):
        text = Path(folder or side.folder, arm.OUTPUT).read_text(encoding="utf-8", errors="replace")
        tail = text.splitlines()[-_TAIL_LINES:]
    name = {BASE: "the base revision", NEW: "this revision"}[side.name]
    reason = "it does not train" if why in {None, arm.NO_STEPS} else why
    return "\n".join([f"{name} could not be measured: {reason}", *(f"  | {line}" for line in tail)])
