"""Note when a training steps: in the training's process, before anything of it is imported.

Written for the benchmark alone; gapless is not there while truths are measured. The device is
waited for at the first counted step and at the end, never between.

With ``PLANTED_STREAM`` each step is appended to that file at once (kind and time), and the process
goes on until it is ended: it is stopped and continued from outside, in turns with another. Both
start from the same seeds, so that they do the same work at the same step.
"""

import importlib.abc
import json
import os
import random
import struct
import sys
import time

_SKIPPED = 5  # steps before the first counted one
_OUT = os.environ.get("PLANTED_STEPS")
_SECONDS = float(os.environ.get("PLANTED_SECONDS", "5"))
_LEAST = int(os.environ.get("PLANTED_LEAST", "20"))
_MAIN = os.getpid()
_STREAM = os.environ.get("PLANTED_STREAM")
_KINDS = {"optimizer": 0, "backward": 1}


class _Stream:
    """Appends each step to a file."""

    def __init__(self):
        self.file = os.open(_STREAM, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def step(self, kind):
        if os.getpid() == _MAIN:
            os.write(self.file, struct.pack("<Bd", _KINDS[kind], time.perf_counter()))


class _Counter:
    def __init__(self):
        self.marks = {"optimizer": [], "backward": []}
        self.first = None

    def step(self, kind):
        if os.getpid() != _MAIN:
            return
        marks = self.marks[kind]
        marks.append(time.perf_counter())
        if kind == "backward" and self.marks["optimizer"]:
            return
        if len(marks) == _SKIPPED:
            _wait()
            marks[-1] = self.first = time.perf_counter()
        elif len(marks) > _SKIPPED and self.first is not None:
            spent = marks[-1] - self.first
            enough = len(marks) >= _SKIPPED + _LEAST or spent > 3 * _SECONDS
            if spent >= _SECONDS and enough:
                self.end(kind)

    def end(self, kind):
        _wait()
        marks = self.marks[kind]
        marks[-1] = time.perf_counter()
        with open(_OUT, "w") as file:
            json.dump({"kind": kind, "marks": marks[_SKIPPED - 1 :]}, file)
        sys.stdout.flush()
        os._exit(0)


def _wait():
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _optimizers(module):
    module.register_optimizer_step_post_hook(lambda *_: _COUNTER.step("optimizer"))


def _tensors(module):
    backward = module.Tensor.backward

    def counted(self, *arguments, **options):
        result = backward(self, *arguments, **options)
        _COUNTER.step("backward")
        return result

    module.Tensor.backward = counted


def _seed_torch(module):
    module.manual_seed(0)


def _seed_numpy(module):
    module.random.seed(0)


def _both(first, second):
    def act(module):
        if first is not None:
            first(module)
        second(module)

    return act


_WANTED = {"torch.optim.optimizer": _optimizers, "torch._tensor": _tensors}
_SEEDED = {"torch": _seed_torch, "numpy": _seed_numpy}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        act = _WANTED.pop(name, None)
        if act is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            act(module)

        spec.loader.exec_module = exec_module
        return spec


if _OUT or _STREAM:
    _COUNTER = _Stream() if _STREAM else _Counter()
    if _STREAM:
        random.seed(0)
        _WANTED.update(_SEEDED)
    if os.environ.get("PLANTED_NOTES"):
        import removing

        _acts = removing.REMOVALS.get(os.environ.get("PLANTED_REMOVAL"), {})
        _watches = removing.WATCHES.get(os.environ.get("PLANTED_WATCH"), {})
        for _name, _act in (*_acts.items(), *_watches.items()):
            _WANTED[_name] = _both(_WANTED.get(_name), _act)
    sys.meta_path.insert(0, _Finder())
