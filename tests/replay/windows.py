"""Windows of drawn trainings whose gains can be reckoned by hand. Times in µs, as drawn in ns."""

from collections.abc import Callable, Sequence

from gapless.accounting import join_trace, partition
from gapless.replay.edits.select import view_of
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.alpha import Alpha
from gapless.replay.predict.identity import check_identity
from gapless.replay.predict.scene import Scene
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, Kind, draw

STEPS = 5
NO_COST = Alpha(0.0, 0.0, 0.0, only_bounds=False, error=0.0)
Step = Callable[[int, int], tuple[list[Frame], list[Act]]]  # of its start (µs) and number


def frame(tag: str, start: float, end: float, name: str = "") -> Frame:
    return Frame(tag, round(start * US), round(end * US), name=name)


def call(start: float, end: float) -> Call:
    return Call(round(start * US), round(end * US))


def act(start: float, end: float, launch: Call, kind: Kind = "compute", name: str = "") -> Act:
    size = 2_500_000 if kind == "h2d" else -1
    return Act(
        f"{kind}@{start}", round(start * US), round(end * US), launch, kind, name, bytes=size
    )


def draw_training(step: Step, period: int) -> Drawing:
    """Draw a training whose steps take so long on the host."""
    frames, acts = list[Frame](), list[Act]()
    for number in range(STEPS):
        step_drawing = step(number * period, number)
        frames += step_drawing[0]
        acts += step_drawing[1]
    return Drawing(acts, frames, [number * period * US for number in range(STEPS + 1)])


def scene_of(drawing: Drawing) -> Scene:
    inputs = draw(drawing)
    joined_trace = join_trace(inputs.trace)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages, joined_trace=joined_trace)
    graph = build_graph(joined_trace, ledger)
    assert isinstance(graph, Graph), graph
    check = check_identity(graph, simulate)
    assert check.error == 0, check
    return Scene(view_of(joined_trace, ledger), graph, check, NO_COST, anchored=True)


def readback_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Read a number back in the middle of a step of 1,000 µs."""
    first_launch, readback_call, second_launch = (
        call(start + 30, start + 36),
        call(start + 110, start + 115),
        call(start + 610, start + 616),
    )
    frames = [
        frame("op", start + 20, start + 40),
        frame("op", start + 100, start + 560, "aten::item"),
        frame("sync", start + 120, start + 550),
        frame("op", start + 600, start + 640),
    ]
    acts = [
        act(start + 38, start + 538, first_launch),
        act(start + 540, start + 542, readback_call, "d2h"),
        act(start + 618, start + 918, second_launch),
    ]
    return frames, acts


def staged_copy_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Copy a batch from pageable memory, and wait for it, in a step of 900 µs."""
    copy_call, work_call = call(start + 20, start + 300), call(start + 400, start + 406)
    frames = [
        frame("to", start + 10, start + 310),
        frame("sync", start + 302, start + 308),
        frame("op", start + 390, start + 410),
    ]
    pageable = "Memcpy HtoD (Pageable -> Device)"
    acts = [
        act(start + 120, start + 298, copy_call, "h2d", pageable),
        act(start + 408, start + 808, work_call),
    ]
    return frames, acts


def worker_batch_step(start: int, number: int, tag: str = "data") -> tuple[list[Frame], list[Act]]:
    """Take a batch of 2.5 MB, let go of the last one in 300 µs, copy and work: 1,200 µs."""
    frames, acts = staged_copy_step(start + 300, number)
    return [frame(tag, start + 2, start + 6), *frames], acts


def own_batch_step(start: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Do the same with a batch that the training process made."""
    return worker_batch_step(start, number, "data0")


def queued_copy_step(start: int, number: int) -> tuple[list[Frame], list[Act]]:
    """Copy from pinned memory in line with the work: 404 µs of a device, 50 µs of the host."""
    copy_call, work_call = call(start + 12, start + 16), call(start + 32, start + 36)
    frames = [frame("to", start + 10, start + 20), frame("op", start + 30, start + 40)]
    begin = 18 + 404 * number
    acts = [act(begin, begin + 100, copy_call, "h2d"), act(begin + 102, begin + 402, work_call)]
    return frames, acts


def awaited_copy_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Copy from pinned memory and wait for it, then work: 100 µs of the host, 400 of the device."""
    copy_call, work_call = call(start + 12, start + 16), call(start + 140, start + 146)
    frames = [
        frame("op", start + 8, start + 130, "aten::copy_"),
        frame("sync", start + 18, start + 122, "cudaStreamSynchronize"),
        frame("op", start + 134, start + 150),
    ]
    acts = [
        act(start + 18, start + 118, copy_call, "h2d"),
        act(start + 148, start + 448, work_call),
    ]
    return frames, acts


def optimizer_loop_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Update parameters one by one, with eight small kernels, in a step of 600 µs."""
    frames, acts = [frame("opt", start + 100, start + 500)], list[Act]()
    for number in range(8):
        begin = start + 100 + 50 * number
        frames.append(frame("op", begin + 10, begin + 40))
        acts.append(act(begin + 28, begin + 32, call(begin + 20, begin + 26)))
    return frames, acts


def step_lengths(scene: Scene, *changes: object) -> Sequence[float]:
    """Return the lengths of the counted steps, in µs, with some changes made."""
    lengths_ns = scene.changed_steps(changes, 0.0)  # pyright: ignore[reportArgumentType]
    return [length_ns / US for length_ns in lengths_ns.tolist()]
