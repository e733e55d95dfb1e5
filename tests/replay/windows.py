"""Windows of drawn trainings whose gains can be reckoned by hand. Times in µs, as drawn in ns."""

from collections.abc import Callable, Sequence

from gapless.accounting import join, partition
from gapless.replay.alpha import Alpha
from gapless.replay.graph import build
from gapless.replay.identity import identity
from gapless.replay.nodes import Graph
from gapless.replay.scene import Scene
from gapless.replay.select import view_of
from gapless.replay.simulate import simulate
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, Kind, draw

STEPS = 5
NO_COST = Alpha(0.0, 0.0, 0.0, bound=False, error=0.0)
Step = Callable[[int, int], tuple[list[Frame], list[Act]]]  # of its start (µs) and number


def frame(tag: str, start: float, end: float, name: str = "") -> Frame:
    return Frame(tag, round(start * US), round(end * US), name=name)


def call(start: float, end: float) -> Call:
    return Call(round(start * US), round(end * US))


def act(start: float, end: float, launched: Call, kind: Kind = "compute", name: str = "") -> Act:
    size = 2_500_000 if kind == "h2d" else -1
    return Act(
        f"{kind}@{start}", round(start * US), round(end * US), launched, kind, name, bytes=size
    )


def training(step: Step, period: int) -> Drawing:
    """Draw a training whose steps take so long on the host."""
    frames, acts = list[Frame](), list[Act]()
    for number in range(STEPS):
        more = step(number * period, number)
        frames += more[0]
        acts += more[1]
    return Drawing(acts, frames, [number * period * US for number in range(STEPS + 1)])


def scene_of(drawing: Drawing) -> Scene:
    drawn = draw(drawing)
    joined = join(drawn.trace)
    ledger = partition(drawn.trace, drawn.arrivals, drawn.stages, joined=joined)
    graph = build(joined, ledger, drawn.stages)
    assert isinstance(graph, Graph), graph
    found = identity(graph, simulate)
    assert found.error == 0, found
    return Scene(view_of(joined, ledger, drawn.stages), graph, found, NO_COST, anchored=True)


def reading(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Read a number back in the middle of a step of 1,000 µs."""
    first, back, second = call(at + 30, at + 36), call(at + 110, at + 115), call(at + 610, at + 616)
    frames = [
        frame("op", at + 20, at + 40),
        frame("op", at + 100, at + 560, "aten::item"),
        frame("sync", at + 120, at + 550),
        frame("op", at + 600, at + 640),
    ]
    acts = [
        act(at + 38, at + 538, first),
        act(at + 540, at + 542, back, "d2h"),
        act(at + 618, at + 918, second),
    ]
    return frames, acts


def staging(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Copy a batch from pageable memory, and wait for it, in a step of 900 µs."""
    copies, works = call(at + 20, at + 300), call(at + 400, at + 406)
    frames = [
        frame("to", at + 10, at + 310),
        frame("sync", at + 302, at + 308),
        frame("op", at + 390, at + 410),
    ]
    pageable = "Memcpy HtoD (Pageable -> Device)"
    acts = [
        act(at + 120, at + 298, copies, "h2d", pageable),
        act(at + 408, at + 808, works),
    ]
    return frames, acts


def handing(at: int, number: int, tag: str = "data") -> tuple[list[Frame], list[Act]]:
    """Take a batch of 2.5 MB, let go of the last one in 300 µs, copy and work: 1,200 µs."""
    frames, acts = staging(at + 300, number)
    return [frame(tag, at + 2, at + 6), *frames], acts


def drawing_in(at: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Do the same with a batch that the training process made."""
    return handing(at, number, "data0")


def queueing(at: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Copy from pinned memory in line with the work: 404 µs of a device, 50 µs of the host."""
    copies, works = call(at + 12, at + 16), call(at + 32, at + 36)
    frames = [frame("to", at + 10, at + 20), frame("op", at + 30, at + 40)]
    begin = 18 + 404 * number
    acts = [act(begin, begin + 100, copies, "h2d"), act(begin + 102, begin + 402, works)]
    return frames, acts


def waiting(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Copy from pinned memory and wait for it, then work: 100 µs of the host, 400 of the device."""
    copies, works = call(at + 12, at + 16), call(at + 140, at + 146)
    frames = [
        frame("op", at + 8, at + 130, "aten::copy_"),
        frame("sync", at + 18, at + 122, "cudaStreamSynchronize"),
        frame("op", at + 134, at + 150),
    ]
    acts = [act(at + 18, at + 118, copies, "h2d"), act(at + 148, at + 448, works)]
    return frames, acts


def looping(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Update parameters one by one, with eight small kernels, in a step of 600 µs."""
    frames, acts = [frame("opt", at + 100, at + 500)], list[Act]()
    for number in range(8):
        begin = at + 100 + 50 * number
        frames.append(frame("op", begin + 10, begin + 40))
        acts.append(act(begin + 28, begin + 32, call(begin + 20, begin + 26)))
    return frames, acts


def lengths(scene: Scene, *changes: object) -> Sequence[float]:
    """Give the lengths of the counted steps, in µs, with some changes made."""
    found = scene.changed(changes, 0.0)  # pyright: ignore[reportArgumentType]
    return [one / US for one in found.tolist()]
