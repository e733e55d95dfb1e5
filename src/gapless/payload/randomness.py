"""Whether something has advanced a random generator: states before and after are compared.

Looking changes nothing: states are copied out. Looked at are torch's generator of the CPU, NumPy's
global one and that of ``random``, as far as the program has imported them, and generators that the
data set or its transforms hold as attributes.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_OBJECTS = 200  # of a data set that are looked into
MAX_ITEMS = 16  # of a list or dictionary of its
PLAIN = frozenset((str, bytes, int, float, bool, complex, type(None), type, range, slice))


def states(data: Any = None) -> list[Any]:
    """Return the states of generators, the process's and those held by ``data``, to be compared."""
    return [_torch(), _numpy(), _python(), *_held_states(data)]


def _torch() -> bytes | None:
    torch = sys.modules.get("torch")
    return None if torch is None else _state_of_torch(torch.default_generator)


def _state_of_torch(generator: Any) -> bytes:
    state = generator.get_state()
    # Not an operator of torch's: it would appear in the user's profile, or raise in a mode.
    return ctypes.string_at(state.data_ptr(), state.numel() * state.element_size())


def _numpy() -> Any:
    random = sys.modules.get("numpy.random")
    return None if random is None else _plain(random.get_state(legacy=False))


def _plain(state: Any) -> Any:
    """Return a state of NumPy's as something that can be compared."""
    if isinstance(state, dict):
        return [_plain(value) for value in state.values()]
    return state.tobytes() if hasattr(state, "tobytes") else state


def _python() -> Any:
    random = sys.modules.get("random")
    return None if random is None else random.getstate()


def _held_states(data: Any) -> Iterator[Any]:
    readers = _readers()
    for obj in _walk_objects(data):
        read = readers.get(type(obj))
        if read is not None:
            yield read(obj)


def _readers() -> dict[type, Any]:
    """Return how the state of each kind of generator is read; a GPU's is left: it would wait."""
    readers: dict[type, Any] = {}
    torch, numpy, random = (sys.modules.get(name) for name in ("torch", "numpy.random", "random"))
    if torch is not None:
        readers[torch.Generator] = lambda generator: (
            _state_of_torch(generator) if generator.device.type == "cpu" else None
        )
    if numpy is not None:
        readers[numpy.Generator] = lambda generator: _plain(generator.bit_generator.state)
        readers[numpy.RandomState] = lambda generator: _plain(generator.get_state(legacy=False))
    if random is not None:
        readers[random.Random] = lambda generator: generator.getstate()
    return readers


def _walk_objects(data: Any) -> Iterator[Any]:
    """Yield what ``data`` leads to along attributes and items, nearest first; runs no code."""
    queue: deque[Any] = deque([data])
    visited: set[int] = set()
    while queue and len(visited) < MAX_OBJECTS:
        obj = queue.popleft()
        if type(obj) in PLAIN or id(obj) in visited:
            continue
        visited.add(id(obj))
        yield obj
        queue.extend(_members(obj))


def _members(obj: Any) -> Iterable[Any]:
    if type(obj) in (list, tuple):
        return islice(obj, MAX_ITEMS)
    if type(obj) is dict:
        return islice(list(obj.values()) if len(obj) <= MAX_ITEMS else (), MAX_ITEMS)
    try:
        attributes = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return ()
    return list(islice(attributes.values(), 4 * MAX_ITEMS)) if type(attributes) is dict else ()
