"""Steps of trainings drawn operator by operator, with the numbers of the nodes that they make."""

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.accounting.host.threads import Threads, sort_threads
from gapless.model import category as c
from gapless.model.trace import Shape
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, draw

Sizes = tuple[int, ...]
X: Sizes = (8, 4)
HIDDEN: Sizes = (8, 16)


class Script(Struct):
    """What a training thread called, one thing after the other; the device, if there is one."""

    engine: str = "m"  # the thread that evaluates nodes
    frames: list[Frame] = field(default_factory=list[Frame])
    acts: list[Act] = field(default_factory=list[Act])
    bounds: list[int] = field(default_factory=lambda: [0])
    now_ns: int = 0
    next_node: int = 0

    def call(self, name: str, *sizes: Sizes, nodes: int = 1, launches: bool = False) -> list[int]:
        """Call an operator that makes so many nodes: 10 µs, of which 5 lie behind it."""
        kinds = ("float",) * len(sizes)
        shape = Shape(sizes, (), kinds) if sizes else Shape(((),), (), ("Scalar",))
        start, end = self.now_ns, self.now_ns + 5 * US
        self.frames.append(
            Frame("op", start, end, name=name, shape=shape, correlation=self.next_node)
        )
        if launches:
            self._launch(start, "m")
        node_numbers = list(range(self.next_node, self.next_node + nodes))
        self.next_node += nodes
        self.now_ns += 10 * US
        return node_numbers

    def run_backward(self, numbers: list[int], *sizes: Sizes, launches: bool = False) -> None:
        """Evaluate nodes, each of which is given gradients of such sizes."""
        for number in numbers[::-1]:
            shape = Shape(sizes, (), ("float",) * len(sizes))
            start, end = self.now_ns, self.now_ns + 5 * US
            name = "autograd::engine::evaluate_function: XBackward0"
            node = Frame("op", start, end, self.engine, name=name, correlation=number)
            inner = replace(node, start=start + 10, end=end - 10, name="XBackward0", shape=shape)
            self.frames += [node, inner]
            if launches:
                self._launch(start, self.engine)
            self.now_ns += 10 * US

    def wrap_since(self, start: int, name: str) -> None:
        """Put a Python function around all since an instant."""
        kind = c.PYTHON_FUNCTION
        self.frames.append(Frame("py", start, self.now_ns, name=name, category=kind))

    def end_step(self) -> None:
        """End a step."""
        self.now_ns += 10 * US
        self.bounds.append(self.now_ns)

    def drawing(self) -> Drawing:
        """Return what was called."""
        return Drawing(self.acts, self.frames, self.bounds)

    def threads(self) -> Threads:
        """Return the threads of its trace."""
        return sort_threads(draw(self.drawing()).trace)

    def _launch(self, start: int, thread: str) -> None:
        begin = max(start + 4 * US, self.acts[-1].end if self.acts else 0)
        call = Call(start + US, start + 2 * US, thread)
        self.acts.append(Act(f"k{len(self.acts)}", begin, begin + 50 * US, call))


def run_model(script: Script, *, wide: int = 16, launches: bool = False) -> list[list[int]]:
    """Run a model: a layer and what follows it."""
    return [
        script.call("aten::linear", X, (wide, 4), (wide,), nodes=2, launches=launches),
        script.call("aten::relu", (8, wide)),
    ]


def train(script: Script, pass_nodes: list[list[int]], *, launches: bool = False) -> None:
    """Compute the loss of what a model gave, and go back through it."""
    loss = script.call("aten::cross_entropy_loss", HIDDEN, (8,))
    script.call("aten::ones_like", ())
    script.next_node -= 1  # it makes no node
    script.run_backward(loss, ())
    for node_numbers in pass_nodes[::-1]:
        script.run_backward(node_numbers, HIDDEN, launches=launches)


def call_plain(script: Script, name: str, *sizes: Sizes) -> None:
    """Call an operator that makes no node."""
    script.call(name, *sizes, nodes=0)
