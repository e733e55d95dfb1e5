"""A maker in a process of its own, forked as a worker of the loader would be.

It answers one call at a time through a pipe. Batches come through a queue of torch's, as from any
worker. Should the process die, the call raises ``WorkerDiedError``.
"""

from __future__ import annotations

import queue
import signal
import time
from multiprocessing import get_context
from time import monotonic_ns
from typing import Any

_PATIENCE_S = 600.0  # for one call
_PICKLING_S = 60.0  # for a batch that was made
_POLL_S = 0.5


class WorkerDiedError(Exception):
    """The process that makes samples has died; the message says how."""


class RaisedError(Exception):
    """A call raised in the other process; the message says what, and where."""


class RemoteMaker:
    """Calls the functions of a maker in a forked process."""

    def __init__(self, maker: Any, loader: Any) -> None:
        import torch.multiprocessing as torch_processes

        fork: Any = get_context("fork")
        self._pipe, theirs = fork.Pipe()
        self._batches: Any = torch_processes.get_context("fork").Queue()
        self._process = fork.Process(
            target=_serve, args=(maker, loader, theirs, self._batches), daemon=True
        )
        self._process.start()
        theirs.close()

    def call(self, name: str, *values: Any) -> Any:
        """Call a function of the maker; return what it returns. Raises what is said above."""
        self._send((name, values))
        return self._receive()

    def hand_over(self, variant: str) -> tuple[int, Any]:
        """Have a batch made and sent; return the ns from when it was put to when it is here.

        The answer may come first: a thread of the queue pickles the batch meanwhile.
        """
        self._send(("hand over", (variant,)))
        until = time.monotonic() + _PATIENCE_S
        put_ns: int | None = None
        while (arrived := self._poll_batch()) is None:
            if put_ns is None and self._pipe.poll():
                put_ns = self._receive()
                until = time.monotonic() + _PICKLING_S
            self._check_alive()
            if time.monotonic() > until:
                raise RaisedError("its batch did not come: can it be pickled?")
        now_ns, batch = arrived
        return now_ns - (self._receive() if put_ns is None else put_ns), batch

    def _poll_batch(self) -> tuple[int, Any] | None:
        """Return when a batch came, and the batch; ``None``: none came for a while."""
        try:
            batch = self._batches.get(timeout=_POLL_S)
        except queue.Empty:
            return None
        return monotonic_ns(), batch

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join(_POLL_S)

    def _send(self, request: Any) -> None:
        try:
            self._pipe.send(request)
        except OSError:
            self._check_alive()
            raise

    def _receive(self) -> Any:
        until = time.monotonic() + _PATIENCE_S
        while not self._pipe.poll(_POLL_S):
            self._check_alive()
            if time.monotonic() > until:
                raise WorkerDiedError(f"it did not answer within {_PATIENCE_S:.0f} s")
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            raise WorkerDiedError(self._describe_death()) from None
        if kind == "raised":
            raise RaisedError(value)
        return value

    def _check_alive(self) -> None:
        if self._process.exitcode is not None and not self._pipe.poll():
            raise WorkerDiedError(self._describe_death())

    def _describe_death(self) -> str:
        self._process.join(_POLL_S)
        code = self._process.exitcode
        exit_words = "it closed its pipe" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            exit_words = f"signal {_signal_name(-code)}"
        return f"the process that makes samples, as a worker would, died: {exit_words}"


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _serve(maker: Any, loader: Any, pipe: Any, batches: Any) -> None:
    """Answer calls until the pipe is closed: the other process has ended."""
    from .result import describe_error

    try:
        maker.begin(loader)
        error = None
    except Exception as failure:
        error = f"worker_init_fn raised {describe_error(failure)}"
    while True:
        try:
            name, values = pipe.recv()
        except (EOFError, OSError):
            return
        if error is not None:
            pipe.send(("raised", error))
            continue
        try:
            if name == "hand over":
                batch = maker.make_batch(*values)
                put_ns = monotonic_ns()
                batches.put(batch)
                del batch  # as a worker does: whoever has it last frees its memory
                pipe.send(("value", put_ns))
            else:
                pipe.send(("value", getattr(maker, name)(*values)))
        except Exception as failure:
            pipe.send(("raised", describe_error(failure)))


class LocalMaker:
    """Calls the functions of a maker in this process: the loader has no workers."""

    def __init__(self, maker: Any) -> None:
        self._maker = maker

    def call(self, name: str, *values: Any) -> Any:
        """Call a function of the maker; return what it returns."""
        return getattr(self._maker, name)(*values)
