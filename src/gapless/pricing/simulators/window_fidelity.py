"""How well unchanged windows are reproduced."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gapless.model.finding import ReplayFidelity
from gapless.replay.graph.nodes import Refusal
from gapless.replay.predict.scene import Scene


def empty_fidelity(why: str | None = None) -> ReplayFidelity:
    """Return that no window was replayed, and why."""
    return ReplayFidelity(0, None, None, None, None, why)


def measure_fidelity(replays: Sequence[Scene | Refusal]) -> ReplayFidelity:
    """Return how well the unchanged windows are reproduced: the worst of several.

    Windows that are refused because of plain steps tell how far off they are if no other is
    left.
    """
    scenes = [replay for replay in replays if isinstance(replay, Scene)]
    refusals = [replay for replay in replays if isinstance(replay, Refusal)]
    if not scenes:
        return replace(
            empty_fidelity(),
            imputed=_worst_error(refusal.imputed_error for refusal in refusals),
            unprofiled=_worst_error(refusal.unprofiled_error for refusal in refusals),
        )
    notes = dict.fromkeys(note for scene in scenes for note in scene.alpha.notes)
    left_out = dict.fromkeys(f"a window is left out: {refusal.reason}" for refusal in refusals)
    return ReplayFidelity(
        windows=len(scenes),
        imputed=_worst_error(scene.identity.error for scene in scenes),
        unprofiled=_worst_error(scene.alpha.error for scene in scenes if scene.anchored),
        alpha_ns=scenes[0].alpha.mid if scenes[0].anchored else None,
        unexplained=max(scene.identity.unexplained for scene in scenes),
        notes=(*left_out, *notes),
    )


def _worst_error(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), key=abs, default=None)
