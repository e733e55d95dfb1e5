"""Steps of trainings drawn operator by operator, with the numbers of the nodes that they make."""

from dataclasses import dataclass, field, replace

from gapless.accounting.threads import Threads, threads
from gapless.model import category as c
from gapless.model.trace import Shape
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, draw

Sizes = tuple[int, ...]
X: Sizes = (8, 4)
HIDDEN: Sizes = (8, 16)


@dataclass
class Script:
    """What a training thread called, one thing after the other; the device, if there is one."""

    engine: str = "m"  # the thread that evaluates nodes
    frames: list[Frame] = field(default_factory=list[Frame])
    acts: list[Act] = field(default_factory=list[Act])
    bounds: list[int] = field(default_factory=lambda: [0])
    at: int = 0
    number: int = 0

    def call(self, name: str, *sizes: Sizes, nodes: int = 1, launches: bool = False) -> list[int]:
        """Call an operator that makes so many nodes: 10 µs, of which 5 lie behind it."""
        kinds = ("float",) * len(sizes)
        shape = Shape(sizes, (), kinds) if sizes else Shape(((),), (), ("Scalar",))
        start, end = self.at, self.at + 5 * US
        self.frames.append(Frame("op", start, end, name=name, shape=shape, correlation=self.number))
        if launches:
            self._launch(start, "m")
        made = list(range(self.number, self.number + nodes))
        self.number += nodes
        self.at += 10 * US
        return made

    def back(self, numbers: list[int], *sizes: Sizes, launches: bool = False) -> None:
        """Evaluate nodes, each of which is given gradients of such sizes."""
        for number in numbers[::-1]:
            shape = Shape(sizes, (), ("float",) * len(sizes))
            start, end = self.at, self.at + 5 * US
            name = "autograd::engine::evaluate_function: XBackward0"
            node = Frame("op", start, end, self.engine, name=name, correlation=number)
            inner = replace(node, start=start + 10, end=end - 10, name="XBackward0", shape=shape)
            self.frames += [node, inner]
            if launches:
                self._launch(start, self.engine)
            self.at += 10 * US

    def within(self, start: int, name: str) -> None:
        """Put a Python function around all since an instant."""
        kind = c.PYTHON_FUNCTION
        self.frames.append(Frame("py", start, self.at, name=name, category=kind))

    def step(self) -> None:
        """End a step."""
        self.at += 10 * US
        self.bounds.append(self.at)

    def drawing(self) -> Drawing:
        """Give what was called."""
        return Drawing(self.acts, self.frames, self.bounds)

    def threads(self) -> Threads:
        """Give the threads of its trace."""
        return threads(draw(self.drawing()).trace)

    def _launch(self, start: int, thread: str) -> None:
        begin = max(start + 4 * US, self.acts[-1].end if self.acts else 0)
        call = Call(start + US, start + 2 * US, thread)
        self.acts.append(Act(f"k{len(self.acts)}", begin, begin + 50 * US, call))


def model(script: Script, *, wide: int = 16, launches: bool = False) -> list[list[int]]:
    """Run a model: a layer and what follows it."""
    return [
        script.call("aten::linear", X, (wide, 4), (wide,), nodes=2, launches=launches),
        script.call("aten::relu", (8, wide)),
    ]


def train(script: Script, passed: list[list[int]], *, launches: bool = False) -> None:
    """Compute the loss of what a model gave, and go back through it."""
    loss = script.call("aten::cross_entropy_loss", HIDDEN, (8,))
    script.call("aten::ones_like", ())
    script.number -= 1  # it makes no node
    script.back(loss, ())
    for made in passed[::-1]:
        script.back(made, HIDDEN, launches=launches)


def plain(script: Script, name: str, *sizes: Sizes) -> None:
    """Call an operator that makes no node."""
    script.call(name, *sizes, nodes=0)
