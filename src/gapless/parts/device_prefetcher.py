"""Copy the next batch to the GPU while the current one is used."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Any, Optional, Union

import torch

from .batches import convert, find_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Device = Optional[Union[str, int, torch.device]]

_OWN_ATTRIBUTES = ("loader", "device", "ahead", "_lanes")
# whose copies in pinned memory are of the same class
_PINNABLE_TYPES = (torch.Tensor, torch.nn.Parameter)


class DevicePrefetcher:
    """Iterate over a loader's batches on the GPU, each copied while the one before is used.

    ``for x, y in DevicePrefetcher(loader): …`` takes the place of ``for x, y in loader: …``;
    the ``.to(device)`` that follows may stay: it finds the tensors where they are to be.

    ``loader``: anything that can be iterated; a ``DataLoader`` with ``pin_memory=True`` is best.
    ``device``: a CUDA device; the current one if not given. ``ahead``: how many batches are copied
    in advance; each takes its memory on the device.

    **What is copied.** Every dense CPU tensor of a batch: in tuples, named tuples, lists, mappings
    and their subclasses, dataclasses, objects with a method ``to``, and such as have a method
    ``pin_memory`` (all that ``pin_memory=True`` knows). Containers are new ones of the same class;
    sparse and nested tensors and all else are passed on as they come. A tensor in pageable memory
    is copied into pinned memory first.

    **How.** Copies run on a CUDA stream of their own. When a batch is handed over, the stream that
    is current then waits for its copy (the CPU does not), and each tensor is marked as used on that
    stream (``Tensor.record_stream``), so that its memory is not given away too early. Pinned memory
    is kept until the copy from it is done.

    **What stays the same.** Batches, their order and their number; ``len()``, and every attribute
    of the loader (``prefetcher.sampler.set_epoch(3)``, ``prefetcher.dataset``). An exception of the
    loader is raised where its batch would have come, after the batches before it. There may be
    several iterations at once, each its own, and each may be left early. Without a CUDA device, or
    for another kind of device, the loader's own iterator is returned.

    **What differs.** The loader is asked for a batch before the one ahead of it is trained on. So a
    loop that is left early has taken ``ahead`` batches more from its iterator; and a loader without
    workers, whose data set draws from the global random generator, draws before the step that it
    used to draw after: the same numbers go to other places. A loader that writes each batch into
    the same memory as the one before must not be used with it.
    """

    def __init__(self, loader: Iterable[Any], device: Device = None, ahead: int = 1) -> None:
        if ahead < 1:
            raise ValueError(f"ahead is at least 1, not {ahead}")
        attributes = {"loader": loader, "device": device, "ahead": ahead, "_lanes": {}}
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        """Begin an iteration of the loader."""
        source = iter(self.loader)  # its workers are forked before anything is asked of CUDA
        lane = self._lane()
        return source if lane is None else PrefetchIterator(source, lane, self.ahead)

    def __len__(self) -> int:
        """Return the loader's length. Raises ``TypeError`` if it has none."""
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Return the loader's attribute."""
        if name in _OWN_ATTRIBUTES or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the loader's attribute."""
        setattr(self.loader, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the streams."""
        return type(self), (self.loader, self.device, self.ahead)

    def _lane(self) -> Any:
        """Return the stream for the device that is meant now; None: there is nothing to copy to."""
        device = cuda_device(self.device)
        if device is None:
            return None
        if device not in self._lanes:
            self._lanes[device] = CopyLane(device)
        return self._lanes[device]


class PrefetchIterator:
    """One iteration: batches that are on their way, and what they come from."""

    def __init__(self, source: Iterator[Any], lane: Any, ahead: int) -> None:
        self.ahead = ahead
        self._source, self._lane = source, lane
        self._waiting: deque[tuple[Any, Exception | None]] = deque()  # sent, or what was raised
        self._open = True  # the source may be asked for more

    def __iter__(self) -> PrefetchIterator:
        """Return this iteration."""
        return self

    def __next__(self) -> Any:
        """Return the next batch, and send those after it on their way."""
        self._send()
        if not self._waiting:
            raise StopIteration
        sent, error = self._waiting.popleft()
        if error is None:
            return self._lane.arrive(sent)
        self._open = not isinstance(error, StopIteration)  # a DataLoader goes on after an error
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the loader's iterator."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def _send(self) -> None:
        try:
            while self._open and len(self._waiting) <= self.ahead:
                self._waiting.append((self._lane.send(next(self._source)), None))
        except Exception as error:  # noqa: BLE001 - raised when its batch is asked for
            self._waiting.append((None, error))
            self._open = False


@dataclasses.dataclass(frozen=True)
class _BatchInFlight:
    """A batch on its way: what is made of it, from what, and when the copies are done."""

    batch: Any
    tensors: list[Any]
    sources: list[Any]
    done_event: Any  # a CUDA event


class CopyLane:
    """A CUDA stream that batches are copied on."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: Any = torch.cuda.Stream(device)
        self._held: deque[tuple[Any, list[Any]]] = deque()  # sources whose copies may not be done

    def send(self, batch: Any) -> _BatchInFlight:
        """Begin to copy a batch."""
        tensors: list[Any] = []
        sources: list[Any] = []
        user = torch.cuda.current_stream(self.device)

        def send_tensor(tensor: Any) -> Any:
            if not _can_be_sent(tensor):
                return tensor
            source = _pin_tensor(tensor)
            device_tensor = source.to(self.device, non_blocking=True)
            tensors.append(device_tensor)
            sources.append(source)
            return device_tensor

        def send_object(node: Any) -> Any:
            if next(find_tensors(node), None) is None:  # none to mark as used on the user's stream
                with torch.cuda.stream(user):
                    return _move(node, self.device)
            source = _pin_object(node)
            device_node = _move(source, self.device)
            tensors.extend(tensor for tensor in find_tensors(device_node) if tensor.is_cuda)
            sources.append(source)
            return device_node

        with torch.cuda.stream(self.stream):
            device_batch = convert(batch, send_tensor, send_object)
            done_event: Any = self.stream.record_event()
        return _BatchInFlight(device_batch, tensors, sources, done_event)

    def arrive(self, sent: _BatchInFlight) -> Any:
        """Hand the batch over to the current stream, which waits for its copies."""
        user: Any = torch.cuda.current_stream(self.device)
        user.wait_event(sent.done_event)
        for tensor in sent.tensors:
            tensor.record_stream(user)
        self._held.append((sent.done_event, sent.sources))
        while self._held and self._held[0][0].query():
            self._held.popleft()
        return sent.batch


def cuda_device(device: Device) -> torch.device | None:
    """Return the CUDA device that is meant, with its number; None: there is none."""
    if not torch.cuda.is_available():
        return None
    target = torch.device("cuda" if device is None else device)
    if target.type == "cuda" and target == torch.device("cuda"):  # without a number
        return torch.device("cuda", torch.cuda.current_device())
    return target if target.type == "cuda" else None


def _can_be_sent(tensor: Any) -> bool:
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.is_nested


def _pin_tensor(tensor: Any) -> Any:
    if (
        type(tensor) not in _PINNABLE_TYPES
        or tensor.requires_grad
        or tensor.is_quantized
        or tensor.is_pinned()
    ):
        return tensor
    return tensor.pin_memory()


def _pin_object(node: Any) -> Any:
    pin, is_pinned = getattr(node, "pin_memory", None), getattr(node, "is_pinned", None)
    if not callable(pin) or (callable(is_pinned) and is_pinned()):
        return node
    return pin()


def _move(node: Any, device: torch.device) -> Any:
    try:
        return node.to(device, non_blocking=True)
    except TypeError:  # it takes a device alone
        return node.to(device)
