"""A script, stepped from outside: it trains in a thread of its own, and waits after each step.

A step ends where its optimizers' do. The script knows nothing of it; a block of steps is the
script from its start, and ends in the midst of it.
"""

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.strangers.cases import OPTIMIZERS
from tests.zoo.cases import Case
from tests.zoo.job import Job, Steps

TRAININGS: Final = Path(__file__).parent / "trainings"
_ENDLESS: Final = 1_000_000_000


class ScriptEnd(BaseException):
    """The script is to go no further."""


def make(case: Case, device: str, variant: str | None = None) -> Job:
    """Return a script, or what it is rewritten to, as a training that can be stepped."""
    path = TRAININGS / f"{case.family}.py"
    replacements: Mapping[str, Any] = {} if variant is None else case.variant(variant)
    options = Namespace(
        code=compile(rewrite(path.read_text(), replacements), str(path), "exec"),
        path=str(path),
        line=[word for name in case.options for word in (f"--{name}", str(_ENDLESS))],
        each=OPTIMIZERS.get(case.name, 1),
    )
    return Job(nn.Identity(), None, torch.device(device), options, train)


def rewrite(text: str, replacements: Mapping[str, Any]) -> str:
    """Return a source with some of it replaced. Raises ``ValueError`` for what is absent."""
    for old, new in replacements.items():
        if text.count(old) != 1:
            raise ValueError(f"it stands there {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return text


class ScriptStepper:
    """A script in a thread that goes on for one step whenever it is let."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.let, self.came = threading.Semaphore(0), threading.Semaphore(0)
        self.closing, self.count = False, 0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """Run the script to its end, or until it is to go no further."""
        self.let.acquire()
        hook = register_optimizer_step_post_hook(self.after)
        before = sys.modules["__main__"], sys.argv
        module = ModuleType("__main__")
        module.__file__ = self.options.path
        sys.modules["__main__"] = module
        sys.argv = [self.options.path, *self.options.line]
        try:
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
                exec(self.options.code, module.__dict__)  # noqa: S102  that is what scripts are for
            self.error = RuntimeError("the script has ended")
        except ScriptEnd:
            pass
        except (Exception, SystemExit) as error:  # noqa: BLE001  told to whoever steps it
            self.error = error
        finally:
            sys.modules["__main__"], sys.argv = before
            hook.remove()
            self.came.release()

    def after(self, *_: object) -> None:
        """Wait after a step, until the next may begin."""
        if threading.current_thread() is not self.thread:
            return
        self.count += 1
        if self.count % self.options.each:
            return
        self.came.release()
        self.let.acquire()
        if self.closing:
            raise ScriptEnd

    def step(self) -> None:
        """Let it go on for a step. Raises ``RuntimeError`` where it ended instead."""
        self.let.release()
        self.came.acquire()
        if self.error is not None:
            raise RuntimeError(f"{type(self.error).__name__}: {self.error}") from self.error

    def close(self) -> None:
        """Let it go no further."""
        self.closing = True
        self.let.release()
        if self.thread.is_alive():
            self.thread.join()


def train(job: Job) -> Steps:
    """Step a script on and on."""
    script = ScriptStepper(job.options)
    script.thread.start()
    try:
        while True:
            script.step()
            yield
    finally:
        script.close()
