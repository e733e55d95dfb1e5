"""Packages that run the loop of a training: their lines are where its time goes.

Of a script that only calls ``Trainer(…).train()``, or of ``python -m package.train``, no line says
more than that. The lines of the package do.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from gapless.capture.source_lines import is_library, package_of
from gapless.catalogue.frameworks.frameworks import LOOP_PACKAGES
from gapless.model.recording import Recording, StackCount
from gapless.recorded.training.lines import StackFrame, is_recorder_stack

_MIN_SHARE: Final = 0.9  # of the time, and of that in what makes steps
_TORCH: Final = "torch"
_FOLDERS: Final = ("/site-packages/", "/dist-packages/")
_Entry = tuple[StackFrame | None, str]  # the user's line, if there is any, and a package
_STEP_MAKERS: Final = (  # files of torch's whose functions make a step
    "torch/_tensor.py",
    "torch/autograd/",
    "torch/optim/",
)


def show_trainer_lines(recording: Recording) -> Recording:
    """Return the recording with the files of packages that run the loop as a user's are.

    Their paths begin at the package then, as those in windows do. Nothing changes where the user's
    own code runs the loop, or a framework that causes are put in the words of.
    """
    trainers = [
        find_trainer(process.stacks)
        for process in recording.processes
        if process.role == "training"
    ]
    packages = frozenset(package for package in trainers if package is not None)
    if not packages:
        return recording
    processes = (
        replace(process, stacks=tuple(_shorten_stacks(process.stacks, packages)))
        for process in recording.processes
    )
    return replace(recording, processes=tuple(processes))


def find_trainer(stacks: Sequence[StackCount]) -> str | None:
    """Return the package that runs the loop; ``None``: the user's code does, or a framework."""
    training_stacks = [
        stack for stack in stacks if stack.thread == "training" and not is_recorder_stack(stack)
    ]
    entry = _find_common_entry(training_stacks)
    if entry is None or _find_common_entry(filter(_makes_step, training_stacks)) != entry:
        return None
    package = entry[1]
    return None if package in LOOP_PACKAGES or is_library(package) else package


def _find_common_entry(stacks: Iterable[StackCount]) -> _Entry | None:
    """Return the entry that nearly all time passes through, if any does."""
    times = Counter[_Entry | None]()
    for stack in stacks:
        times[_find_entry(stack)] += stack.ran_ns + stack.blocked_ns
    entry, time = max(times.items(), key=lambda item: item[1], default=(None, 0))
    return entry if time and time >= _MIN_SHARE * times.total() else None


def _find_entry(stack: StackCount) -> _Entry | None:
    """Return the outermost call of an installed package, and the user's line of it."""
    line: StackFrame | None = None
    for frame in reversed(stack.frames):
        if not is_library(frame[0]):
            line = frame
        elif _is_installed(frame[0]) and package_of(frame[0]) not in {None, _TORCH}:
            return line, package_of(frame[0]) or ""
    return None


def _makes_step(stack: StackCount) -> bool:
    return any(maker in _path(frame[0]) for frame in stack.frames for maker in _STEP_MAKERS)


def _shorten_stacks(
    stacks: Iterable[StackCount], packages: Container[str | None]
) -> Iterator[StackCount]:
    for stack in stacks:
        frames = tuple((_shorten(frame[0], packages), *frame[1:]) for frame in stack.frames)
        yield replace(stack, frames=frames)


def _shorten(file: str, packages: Container[str | None]) -> str:
    """Return the path from the package on, if the file is of one of them."""
    if not _is_installed(file) or package_of(file) not in packages:
        return file
    path = _path(file)
    return file[max(path.rfind(folder) + len(folder) for folder in _FOLDERS if folder in path) :]


def _is_installed(file: str) -> bool:
    return any(folder in _path(file) for folder in _FOLDERS)


def _path(file: str) -> str:
    return file.replace("\\", "/")
