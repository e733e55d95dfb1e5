"""Leave out gradients that no optimizer steps with, once some steps have shown which."""

import os
import sys

from .notes import note

_LEARNING = 6  # times that a backward pass is seen before it is cut
_MAX_NODES = 200_000  # of a graph in which leaves are looked for


class _Passes:
    """Which optimizers step with the gradients of which backward pass, by its line."""

    def __init__(self):
        self.pending = {}  # optimizer → the passes since it was cleared last
        self.used = {}  # pass → the optimizers that stepped with it
        self.counts = {}
        self.surplus = {}  # pass → whether leaves take part in it that no optimizer holds
        self.left = {}  # optimizer → what a pass left of its gradients

    def begin(self, place, tensors):
        """Note a pass; return the parameters whose gradients are used, once that is known."""
        self.counts[place] = self.counts.get(place, 0) + 1
        for optimizer, places in self.pending.items():
            if optimizer in self.left and _state(optimizer) != self.left[optimizer]:
                places.clear()  # by other means than zero_grad
            places.add(place)
        optimizers = self.used.get(place)
        if self.counts[place] <= _LEARNING or not optimizers:
            return None
        if place not in self.surplus:
            self.surplus[place] = _has_surplus(tensors, self.pending)
        if len(optimizers) == len(self.pending) and not self.surplus[place]:
            return None
        return [
            tensor
            for optimizer in optimizers
            for tensor in _parameters(optimizer)
            if tensor.requires_grad
        ]

    def end(self):
        """Keep what is there after a pass."""
        self.left = {optimizer: _state(optimizer) for optimizer in self.pending}

    def step(self, optimizer, *_):
        for place in self.pending.setdefault(optimizer, set()):
            self.used.setdefault(place, set()).add(optimizer)

    def clear(self, parameters):
        """Forget the passes of optimizers all of whose parameters are cleared."""
        cleared = {id(parameter) for parameter in parameters}
        for optimizer, places in self.pending.items():
            if all(id(tensor) in cleared for tensor in _parameters(optimizer)):
                places.clear()


_PASSES = _Passes()


def _parameters(optimizer):
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def _state(optimizer):
    """Return what tells whether the gradients of an optimizer were touched: of one of them."""
    for tensor in _parameters(optimizer):
        if tensor.requires_grad:
            grad = tensor.grad
            return None if grad is None else (id(grad), grad._version)  # noqa: SLF001
    return None


def _has_surplus(tensors, optimizers):
    """Return whether a graph holds leaves that no optimizer does: a gradient is made for each."""
    owned = {id(tensor) for optimizer in optimizers for tensor in _parameters(optimizer)}
    roots = tensors if isinstance(tensors, (tuple, list)) else [tensors]
    nodes = [tensor.grad_fn for tensor in roots if tensor.grad_fn is not None]
    seen = set(nodes)
    while nodes and len(seen) < _MAX_NODES:
        node = nodes.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in owned:
            return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return False


def _is_between(file):
    folder = os.path.dirname(os.path.dirname(__file__))
    return "/torch/" in file or file.startswith(folder)


def _cut_passes(module):
    backward = module.backward

    def cut(tensors, *arguments, **options):
        frame = sys._getframe(1)  # noqa: SLF001 - of the caller
        while frame.f_back is not None and _is_between(frame.f_code.co_filename):
            frame = frame.f_back
        parameters = _PASSES.begin((frame.f_code, frame.f_lineno), tensors)
        if parameters and options.get("inputs") is None and len(arguments) <= 3:
            options["inputs"] = parameters
            note("removed")
        result = backward(tensors, *arguments, **options)
        _PASSES.end()
        return result

    module.backward = cut


def _watch_steps(module):
    module.register_optimizer_step_pre_hook(_PASSES.step)
    _watch_clearing(module.Optimizer, _parameters)


def _watch_modules(module):
    _watch_clearing(module.Module, lambda model: model.parameters())


def _watch_clearing(kind, parameters_of):
    zero_grad = kind.zero_grad

    def watched(self, *arguments, **options):
        zero_grad(self, *arguments, **options)
        _PASSES.clear(parameters_of(self))

    kind.zero_grad = watched


ACTS = {
    "torch.autograd": _cut_passes,
    "torch.optim.optimizer": _watch_steps,
    "torch.nn.modules.module": _watch_modules,
}
