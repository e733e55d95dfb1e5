"""The simulator of a run: its windows as graphs, its loaders' queues, or both in one replay.

A change of a loader alone is simulated on its queue, which is built from what was recorded all the
time. Changes within steps are simulated on the windows. Where steps wait for workers, what they
save may become such a wait: then both are simulated together, even if no change concerns the
loader.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.capture.reread import (
    ReplayWindow,
    StudiedCapture,
    choose_captures,
    choose_joint_captures,
    is_of_ranks,
    reread_captures,
    reread_joint,
)
from gapless.catalogue.queries import between_operators
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.catalogue.queries.samples import UNSPLIT
from gapless.model.account import Account
from gapless.model.change import (
    NO_LOADER,
    Change,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Prediction,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.model.rhythm import UnlikeSteps
from gapless.model.trace import Trace
from gapless.pricing.simulators import account_model, multi_rank
from gapless.pricing.simulators.anchoring import (
    ahead_of,
    drift_of,
    most_waited_loader,
    unprofiled_ns,
)
from gapless.pricing.simulators.joint_windows import build_joint_scene
from gapless.pricing.simulators.window_fidelity import empty_fidelity, measure_fidelity
from gapless.replay.edits.copies import rates_of
from gapless.replay.graph.nodes import Refusal
from gapless.replay.graph.simulate import StuckError
from gapless.replay.loader.costs import LoaderInputs
from gapless.replay.loader.whatif import predict_loader, refuse_crowding
from gapless.replay.predict.predict import PredictionInputs, predict
from gapless.replay.predict.predicted_trace import predict_account, predict_trace
from gapless.replay.predict.scene import Scene, make_scene

_MIN_WAIT_SHARE: Final = 0.05  # of a step, for workers: above that they may be the limit
# of a step: above that, more work of the thread means less waiting
_MIN_HIDDEN_SHARE: Final = 0.005
_DATA: Final = "idle.data"
_MIN_GAIN: Final = 0.02  # of a gain that is checked again, with the loader


class WindowSimulator(Struct, frozen=True):
    """Simulates windows, with the loader's queue where it matters."""

    scenes: tuple[Scene, ...]
    extra: PredictionInputs
    waited_loader: int | None  # the loader whose workers are waited for
    fidelity: ReplayFidelity | None
    hiding_loader: int | None = None  # the loader whose workers are waited for at all
    atypical: UnlikeSteps | None = None  # steps that no window holds

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict the gain of changes together for an un-profiled step, or return why not."""
        prediction = self._predict_windows(changes)
        if self.atypical is None or prediction.speedup is None:
            return prediction
        return replace(prediction, speedup=extend_to_all_steps(prediction.speedup, self.atypical))

    def _predict_windows(self, changes: Sequence[Change]) -> Prediction:
        hiding_loader = (
            self.hiding_loader if any(isinstance(change, Delay) for change in changes) else None
        )
        if hiding_loader is not None and hiding_loader in self.extra.loaders:
            return predict(self.scenes, (*changes, LoaderChange(hiding_loader)), self.extra)
        prediction = predict(self.scenes, changes, self.extra)
        has_loader = any(isinstance(change, LoaderChange) for change in changes)
        if has_loader or self.waited_loader is None or self.waited_loader not in self.extra.loaders:
            return prediction
        if prediction.speedup is None or prediction.speedup.low - 1 < _MIN_GAIN:
            return prediction  # waits that take its place make it less, never more
        return predict(self.scenes, (*changes, LoaderChange(self.waited_loader)), self.extra)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return the account of the longest window with changes made within it.

        Changes of a loader whose queue is simulated are left out: no trace shows its waits.
        """
        known_loaders = self.extra.loaders
        inner_changes = [
            change
            for change in changes
            if not (isinstance(change, LoaderChange) and change.loader in known_loaders)
        ]
        if not inner_changes or self.longest_scene.ranks:
            return None  # of several ranks none stands for all
        return predict_account(self.longest_scene, inner_changes, self.extra.rates)

    @property
    def longest_scene(self) -> Scene:
        """Return the window with the most steps: it is what is shown of a change."""
        return max(self.scenes, key=lambda scene: len(scene.graph.counted_steps))


class RunSimulator(Struct, frozen=True):
    """The one simulator of a run's what-ifs: nothing else is asked what a change is worth.

    Loaders are simulated by their queues, steps by their windows: one graph of threads, devices,
    loaders and ranks; without a device it has no streams. The account answers what a graph cannot
    hold (``account_model``): without a device, what the thread does between operators is known of
    un-profiled steps, of which a replay sees only what tracing left, and so is all where no window
    can be replayed; with a device, what samples show of plain steps, as far as it is waited for.
    """

    loaders: tuple[LoaderInputs, ...] = ()
    windows: WindowSimulator | None = None  # that can be replayed
    is_joint: bool = False  # several ranks make the steps
    thread: Evidence | None = None  # of a training without a device
    plain: Evidence | None = None  # of one with a device: what samples show of plain steps
    # The account weighs several kinds of steps as often as they come, a window as it holds them.
    is_weighed: bool = False
    unreplayed: ReplayFidelity | None = None  # how far off the windows are that are not replayed
    refusal: str = ""  # why nothing else can be simulated

    @property
    def fidelity(self) -> ReplayFidelity | None:
        """Return how well unchanged steps are reproduced; ``None`` where there are no windows."""
        return self.unreplayed if self.windows is None else self.windows.fidelity

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict the gain of changes together for an un-profiled step, or return why not."""
        loader_changes = [change for change in changes if isinstance(change, LoaderChange)]
        loader_ids = {change.loader for change in loader_changes}
        if loader_ids == {NO_LOADER}:
            return Prediction(None, "feed", refused="no replay shows what so many threads do")
        inputs = [
            loader_inputs for loader_inputs in self.loaders if loader_inputs.loader.id in loader_ids
        ]
        crowding = (refuse_crowding(loader_inputs, loader_changes) for loader_inputs in inputs)
        refusal = next(filter(None, crowding), None)
        if refusal is not None:
            return Prediction(None, "feed", refused=refusal)
        if len(loader_changes) < len(changes) or not inputs:
            return self._play_steps(changes)
        if len(loader_ids) > 1:
            return Prediction(None, "feed", refused="several loaders are not replayed together")
        prediction = predict_loader(inputs[0], loader_changes)
        loaders_only = all(change.intra_op_threads is None for change in loader_changes)
        if not self.is_joint or not loaders_only:
            return prediction
        return multi_rank.cap_by_joint(prediction, self._play_steps((Drop((_DATA,)),)).speedup)

    def _play_steps(self, changes: Sequence[Change]) -> Prediction:
        windows, thread = self.windows, self.thread
        if self.is_joint and windows is None and thread is not None:
            return multi_rank.qualify_one_rank(account_model.predict_by_account(thread, changes))
        is_sampled = multi_rank.is_sampled_exchange if self.is_joint else _is_sampled
        if self.plain is not None and all(map(is_sampled, changes)):
            return account_model.predict_by_account(self.plain, changes)
        is_known = multi_rank.is_sampled_exchange if self.is_joint else _is_of_account
        if thread is not None and (
            windows is None or self.is_weighed or all(map(is_known, changes))
        ):
            prediction = account_model.predict_by_account(thread, changes)
            if windows is None or prediction.speedup is not None:
                return prediction
        if windows is None:
            return Prediction(None, "host", refused=self.refusal)
        return windows.play(changes)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return the account of a window with changes made within it; ``None``: not simulated."""
        return None if self.windows is None else self.windows.account(changes)

    def draw(self, changes: Sequence[Change]) -> Trace | None:
        """Return a window with changes made within it, as a trace; ``None``: not simulated."""
        if self.windows is None or self.windows.longest_scene.ranks:
            return None
        try:
            return predict_trace(self.windows.longest_scene, changes, self.windows.extra.rates)
        except StuckError:
            return None


def build_simulator(
    captures: Sequence[StudiedCapture],
    evidence: Evidence,
    loaders: tuple[LoaderInputs, ...] = (),
    *,
    cached: bool = True,
) -> RunSimulator:
    """Return the simulator of a run's what-ifs; a foreign trace has no known loader."""
    replays = _replay_captures(captures, evidence, cached=cached)
    if isinstance(replays, str):
        fidelity = empty_fidelity(replays) if captures else None
        return _without_windows(evidence, loaders, fidelity, replays)
    scenes = tuple(replay for replay in replays if isinstance(replay, Scene))
    reasons = [replay.reason for replay in replays if isinstance(replay, Refusal)]
    if not scenes:
        why = reasons[0] if reasons else "no window can be read again"
        fidelity = replace(measure_fidelity(replays), refused=why)
        return _without_windows(evidence, loaders, fidelity, why)
    rates = rates_of(evidence.constants, _capability(evidence))
    is_joint_run = any(scene.ranks for scene in scenes)
    extra = PredictionInputs(
        rates,
        {}  # each rank has a loader of its own: they are not simulated together
        if is_joint_run
        else {loader_inputs.loader.id: loader_inputs for loader_inputs in loaders},
    )
    windows = WindowSimulator(
        scenes=scenes,
        extra=extra,
        waited_loader=None if is_joint_run else _most_waited_id(evidence, _MIN_WAIT_SHARE),
        fidelity=measure_fidelity(replays),
        hiding_loader=None if is_joint_run else _most_waited_id(evidence, _MIN_HIDDEN_SHARE),
        atypical=_atypical_steps(evidence),
    )
    return RunSimulator(
        loaders,
        windows,
        is_joint=is_joint_run,
        thread=_sole_thread(evidence),
        plain=evidence if evidence.on_device else None,
        is_weighed=not is_joint_run and _is_weighed(evidence),
    )


def _replay_captures(
    captures: Sequence[StudiedCapture], evidence: Evidence, *, cached: bool
) -> list[Scene | Refusal] | str:
    """Return the windows that can be replayed, and why others cannot; or why there are none."""
    if is_of_ranks(captures):
        groups = choose_joint_captures(captures)
        if isinstance(groups, str):
            return groups
        windows = (reread_joint(group, cached=cached) for group in groups)
        return [build_joint_scene(members, evidence) for members in windows if members]
    selected_captures = choose_captures(captures)
    if isinstance(selected_captures, str):
        return selected_captures
    return [
        _build_scene(window, evidence)
        for window in reread_captures(selected_captures, cached=cached)
    ]


def extend_to_all_steps(speedup: Estimate, atypical: UnlikeSteps) -> Estimate:
    """Return the gain of the windows' steps as a gain of all steps, also those in no window.

    Each of those likely saves as much time as any other; at least nothing, at most the same share
    of itself.
    """
    held_share = 1 - atypical.time
    likely_share = min(1.0, held_share / max(held_share, 1 - atypical.steps))
    ends = ((speedup.low, held_share), (speedup.mid, likely_share), (speedup.high, 1.0))
    return Estimate(
        *(1 / (1 - share * (1 - 1 / gain)) if gain > 1 else gain for gain, share in ends)
    )


def _is_of_account(change: Change) -> bool:
    """Return whether a change concerns what the account knows better than a window.

    That is what the thread does between operators, what is in steps that no window holds, and what
    samples show of un-profiled steps.
    """
    return isinstance(change, HostChange) and (
        change.sampled
        or set(change.leaves) <= set(between_operators.PYTHON_LEAVES)
        or UNSPLIT in change.leaves
    )


def _is_sampled(change: Change) -> bool:
    return isinstance(change, HostChange) and change.sampled


def _atypical_steps(evidence: Evidence) -> UnlikeSteps | None:
    """Return the steps that no window holds, and their share of all time, waits included."""
    step_account = evidence.step_account
    if step_account is None or step_account.unlike is None:
        return None
    return replace(step_account.unlike, time=evidence.share(UNSPLIT))


def _is_weighed(evidence: Evidence) -> bool:
    step_account = evidence.step_account
    return step_account is not None and step_account.weighed


def _build_scene(window: ReplayWindow, evidence: Evidence) -> Scene | Refusal:
    plain, ahead, drift = unprofiled_ns(evidence), ahead_of(evidence), drift_of(evidence)
    return make_scene(window.joined, window.ledger, plain, plain_steps=ahead, drift=drift)


def _most_waited_id(evidence: Evidence, min_share: float) -> int | None:
    use = most_waited_loader(evidence, min_share)
    return None if use is None else use.id


def _without_windows(
    evidence: Evidence,
    loaders: tuple[LoaderInputs, ...],
    fidelity: ReplayFidelity | None,
    why: str,
) -> RunSimulator:
    """Return the simulator of a run of which no window can be replayed."""
    is_joint = multi_rank.is_joint(evidence)
    thread = None if is_joint and find_ranks(evidence) else _sole_thread(evidence)
    plain = evidence if evidence.has_device and evidence.account.steps else None
    return RunSimulator(loaders, None, is_joint, thread, plain, unreplayed=fidelity, refusal=why)


def _sole_thread(evidence: Evidence) -> Evidence | None:
    """Return the evidence if its steps are those of threads, without a device."""
    return None if evidence.has_device or not evidence.study.account.steps else evidence


def _capability(evidence: Evidence) -> tuple[int, int] | None:
    return evidence.facts.machine.capability
