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

MOST_THINGS = 200  # of a data set that are looked into
MOST_ITEMS = 16  # of a list or dictionary of its
PLAIN = frozenset((str, bytes, int, float, bool, complex, type(None), type, range, slice))


def states(data: Any = None) -> list[Any]:
    """Give the states of generators, the process's and those held by ``data``, to be compared."""
    return [_torch(), _numpy(), _python(), *_held(data)]


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
    """Give a state of NumPy's as something that can be compared."""
    if isinstance(state, dict):
        return [_plain(value) for value in state.values()]
    return state.tobytes() if hasattr(state, "tobytes") else state


def _python() -> Any:
    random = sys.modules.get("random")
    return None if random is None else random.getstate()


def _held(data: Any) -> Iterator[Any]:
    known = _readers()
    for thing in _within(data):
        read = known.get(type(thing))
        if read is not None:
            yield read(thing)


def _readers() -> dict[type, Any]:
    """Give how the state of each kind of generator is read; a GPU's is left: it would wait."""
    found: dict[type, Any] = {}
    torch, numpy, random = (sys.modules.get(name) for name in ("torch", "numpy.random", "random"))
    if torch is not None:
        found[torch.Generator] = lambda one: (
            _state_of_torch(one) if one.device.type == "cpu" else None
        )
    if numpy is not None:
        found[numpy.Generator] = lambda one: _plain(one.bit_generator.state)
        found[numpy.RandomState] = lambda one: _plain(one.get_state(legacy=False))
    if random is not None:
        found[random.Random] = lambda one: one.getstate()
    return found


def _within(data: Any) -> Iterator[Any]:
    """Give what is found from ``data`` along attributes and items, nearest first; runs no code."""
    waiting: deque[Any] = deque([data])
    seen: set[int] = set()
    while waiting and len(seen) < MOST_THINGS:
        thing = waiting.popleft()
        if type(thing) in PLAIN or id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        waiting.extend(_parts(thing))


def _parts(thing: Any) -> Iterable[Any]:
    if type(thing) in (list, tuple):
        return islice(thing, MOST_ITEMS)
    if type(thing) is dict:
        return islice(list(thing.values()) if len(thing) <= MOST_ITEMS else (), MOST_ITEMS)
    try:
        own = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return ()
    return list(islice(own.values(), 4 * MOST_ITEMS)) if type(own) is dict else ()
