"""Workers of a Ray cluster that share the ranks of a study among them."""

import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, cast

from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.tasks import Answer, Ask, Task
from gapless.errors import RemoteError, UsageError
from gapless.formats.processes import count_processors
from gapless.model.version import version

LOCAL: Final = "local"  # a cluster of this machine, for this study alone
_MAX_RETRIES: Final = 3  # of a task whose worker was lost


@contextmanager
def ray_crew(address: str) -> Generator[Ask]:
    """Connect to a cluster and yield the function that has its workers answer tasks, in order.

    ``address`` is what ``ray.init`` takes, or ``LOCAL``. The second task about a file goes to the
    machine whose cache the first has filled, if it is still there. Leaving, also by Ctrl-C, ends
    what is under way. Raises ``UsageError`` without Ray, ``RemoteError`` without the cluster.
    """
    ray = _connect(address)
    try:
        yield Cluster(ray).ask
    finally:
        ray.shutdown()


def _connect(address: str) -> Any:  # noqa: ANN401  Ray's types are not ours
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    try:
        ray = cast("Any", import_module("ray"))
    except ImportError as error:
        raise UsageError("--on needs Ray: pip install 'gapless[cluster]'") from error
    local_options = (
        {"num_cpus": count_processors(), "include_dashboard": False} if address == LOCAL else {}
    )
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **local_options)
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
        raise RemoteError(f"no Ray cluster answers at {address}: {error}") from error
    return ray


def answering_function(own_version: str) -> Callable[..., object]:
    """Return what a worker does: answer an encoded task, if its gapless is of this version.

    It also tells which machine that was, and what is kept. It travels as it is here, whatever a
    worker has installed, since no module has it; another version, or none, is an ``ImportError``.
    """

    def answer_on_node(data: bytes, *needs: bytes) -> object:
        there = import_module("gapless").__version__
        if there != own_version:
            raise ImportError(f"it has gapless {there}, and this is {own_version}")
        result, blobs = import_module("gapless.capture.ranks.worker").answer(data, needs)
        located = (result, import_module("ray").get_runtime_context().get_node_id())
        return [located, *blobs] if blobs else located

    return answer_on_node


class Cluster:
    """A connection, on which machine each file was read, and what is kept on the cluster."""

    def __init__(self, ray: Any) -> None:  # noqa: ANN401
        self._ray = ray
        self._remote = ray.remote(max_retries=_MAX_RETRIES)(answering_function(version()))
        self._nodes: dict[str, str] = {}
        self._blobs: dict[str, object] = {}

    def ask(self, tasks: Sequence[Task]) -> Iterator[Answer]:
        """Have tasks done by whichever workers are free; yield their answers in order."""
        pending = [self._start(task) for task in tasks]
        pending.reverse()
        for task in tasks:
            yield self._receive(task, pending.pop())

    def _start(self, task: Task) -> object:
        options: dict[str, object] = {"num_returns": 1 + len(task.keeps)}
        node = self._nodes.get(task.path)
        if node is not None:
            strategies = self._ray.util.scheduling_strategies
            strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=True)
            options["scheduling_strategy"] = strategy
        needs = [self._blobs[name] for name in task.needs]
        references = self._remote.options(**options).remote(encode(task), *needs)
        if not task.keeps:
            return references  # a list only of several
        self._blobs.update(zip(task.keeps, references[1:], strict=True))
        return references[0]

    def _receive(self, task: Task, reference: object) -> Answer:
        errors = self._ray.exceptions
        try:
            data, self._nodes[task.path] = self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, ImportError):
                raise RemoteError(
                    f"a worker of the cluster cannot read ranks: {error.cause}; install the same "
                    "version of gapless there as here"
                ) from error
            return Answer(refused=f"gapless made a mistake over it: {error.cause!r}")
        except errors.RayError as error:
            reason = str(error).strip().partition("\n")[0]
            return Answer(refused=f"its worker was lost {_MAX_RETRIES + 1} times: {reason}")
        return decode(data, Answer)
