"""Look at what a loader loads from, without running any of it: its code's names, and its state.

What comes of it are facts that edits depend on: whether an iterable data set shares its samples
out among workers, whether workers would use CUDA, whether they could be sent the data set.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from . import loaderfacts, places

MOST = 2_000  # things and functions looked at of one data set
WIDE = 64  # values looked at of one container or object
_NESTED = 8  # subsets of subsets
_PLAIN = (int, float, complex, bool, type(None), bytes, range, slice)
_NAMES = (str,)
_LIBRARIES = {"torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "builtins", "pandas"}
_LIBRARIES.update(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
_OWN_WAY = ("__getstate__", "__reduce__", "__reduce_ex__")  # of being pickled
_NEVER = {"_thread.lock", "_thread.RLock", "sqlite3.Connection", "h5py._hl.files.File"}
_MEMORY = {"_io.BytesIO", "_io.StringIO"}  # these can be pickled


def values(loader: Any) -> dict[str, Any]:
    """Give the values of a FACT of noun "dataset"."""
    walk = _Walk()
    begin = getattr(loader, "worker_init_fn", None)
    for thing in (loader.dataset, loader.collate_fn, begin):
        walk.state(thing, sent=True)
    walk.finish()
    started = loaderfacts.start_method(loader)
    return {
        "asks_worker_info": _asks(loader, walk, begin),
        "cuda": None if walk.left <= 0 and not walk.cuda else walk.cuda,
        "picklable": _picklable(loader, walk, started),
        "worker_start": started,
        **_place("sample", _sample(loader.dataset)),
        **_place("collate", places.of_function(loader.collate_fn)),
        **_place("sampler", _sampler(loader)),
    }


def _place(noun: str, place: places.Place | None) -> dict[str, Any]:
    """Tell where the user's function begins, if there is one."""
    names = (f"{noun}_file", f"{noun}_line", f"{noun}_function")
    return {} if place is None else dict(zip(names, place))


def _sample(dataset: Any) -> places.Place | None:
    """Give where samples are made: within subsets and chains of torch's, in the user's class."""
    for _ in range(_NESTED):
        for name in ("__getitems__", "__getitem__", "__iter__"):
            place = places.of_function(places.of_class(type(dataset), name))
            if place is not None:
                return place
        dataset = _held(dataset)
        if dataset is None:
            break
    return None


def _sampler(loader: Any) -> places.Place | None:
    """Give where samples are chosen: in the user's batch sampler, or in the sampler within it."""
    for sampler in (loader.batch_sampler, loader.sampler):
        place = places.of_function(places.of_class(type(sampler), "__iter__"))
        if place is not None:
            return place
    return None


def _held(dataset: Any) -> Any:
    """Give the data set that another one is made of, as torch's own keep it."""
    own = object.__getattribute__(dataset, "__dict__") if type(dataset).__dictoffset__ else None
    if type(own) is not dict:
        return None
    several = own.get("datasets")
    inner = several[0] if type(several) in (list, tuple) and several else None
    return own.get("dataset", inner)


def _asks(loader: Any, walk: _Walk, begin: Any) -> bool | None:
    """Tell whether an iterable asks which worker it is in; None: not known, or no iterable."""
    kind = type(loader.dataset)
    if loader._dataset_kind == 0:
        return None
    if walk.worker_info:
        return True
    code = getattr(getattr(kind, "__iter__", None), "__code__", None)
    shared_out = begin is not None or any(one.__name__ == "IterDataPipe" for one in kind.__mro__)
    return None if code is None or shared_out or walk.left <= 0 else False


def _picklable(loader: Any, walk: _Walk, started: str) -> bool | None:
    if loader.num_workers and started != "fork":
        return True  # its workers could not have been started else
    return False if walk.stuck else None


class _Walk:
    """What was found so far."""

    def __init__(self) -> None:
        self.left = MOST
        self.worker_info = self.cuda = self.stuck = False
        self.seen: set[int] = set()
        self.held: list[Any] = []  # so that no number of what was seen is given away
        self.functions: list[tuple[Any, bool]] = []

    def finish(self) -> None:
        """Look through the functions that were met, and those that they name."""
        while self.functions and self.left > 0:
            self._function(*self.functions.pop())

    def state(self, thing: Any, *, sent: bool) -> None:
        """Look at an object and what it holds; ``sent``: a spawned worker would be sent it."""
        kind = type(thing)
        if issubclass(kind, _PLAIN) or self._known(thing):
            return
        if issubclass(kind, _NAMES):
            self.cuda |= thing[:4] == "cuda"
        elif kind in (list, tuple, set, frozenset):
            self._several(list(thing)[:WIDE] if len(thing) <= MOST else _some(thing), sent)
        elif kind is dict:
            self._several(list(thing.values())[:WIDE], sent)
        elif kind is types.MethodType:
            self.state(thing.__func__, sent=False)
            self.state(thing.__self__, sent=sent)
        elif kind is types.FunctionType:
            self.stuck |= sent and _is_local(thing)
            self.functions.append((thing, True))
        elif issubclass(kind, type):
            self._class(thing, near=True)
        else:
            self._object(thing, kind, sent)

    def _several(self, things: Any, sent: bool) -> None:  # noqa: FBT001
        for one in things:
            self.state(one, sent=sent)

    def _object(self, thing: Any, kind: type, sent: bool) -> None:  # noqa: FBT001
        name = f"{kind.__module__}.{kind.__qualname__}"
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(kind, torch.Tensor):
            self.cuda |= bool(thing.is_cuda)
            return
        if name == "torch.device":
            self.cuda |= thing.type == "cuda"
            return
        if _is_library(kind.__module__) and _unsendable(kind, name):
            self.stuck |= sent
            return
        self.stuck |= sent and (name in _NEVER or _is_local(kind))
        self._class(kind, near=True)
        own = object.__getattribute__(thing, "__dict__") if kind.__dictoffset__ else None
        if type(own) is dict:
            its_way = any(way in vars(one) for one in _users(kind) for way in _OWN_WAY)
            self._several(list(own.values())[:WIDE], sent and not its_way)

    def _class(self, kind: type, *, near: bool) -> None:
        for one in _users(kind):
            if self._known(one):
                continue
            for name, value in list(vars(one).items()):
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(function, types.FunctionType):
                    self.functions.append((function, near and name != "__init__"))

    def _function(self, function: Any, near: bool) -> None:  # noqa: FBT001
        """Look at the names in a function; ``near``: it is the data set's, or held by it."""
        if self._known(function.__code__):
            return
        names: set[str] = set()
        for code in _codes(function.__code__):
            names.update(code.co_names)
            texts = [one for one in code.co_consts if isinstance(one, str)]
            self.cuda |= near and any(one[:4] == "cuda" for one in texts)
        self.worker_info |= any("worker_info" in name for name in names)
        self.cuda |= near and "cuda" in names
        space = function.__globals__
        for value in [space[name] for name in names if name in space]:
            self._named(value, names, near)

    def _named(self, value: Any, names: set[str], near: bool) -> None:  # noqa: FBT001
        if isinstance(value, types.FunctionType) and not _is_library(value.__module__):
            self.functions.append((value, near))
        elif isinstance(value, type):
            self._class(value, near=False)
        elif type(value) is types.ModuleType and not _is_library(value.__name__):
            for inner in [vars(value).get(name) for name in names]:
                if isinstance(inner, types.FunctionType):
                    self.functions.append((inner, near))

    def _known(self, thing: Any) -> bool:
        """Tell whether a thing was met before, or there is no time for more."""
        if self.left <= 0 or id(thing) in self.seen:
            return True
        self.left -= 1
        self.seen.add(id(thing))
        self.held.append(thing)
        return False


def _some(things: Any) -> list[Any]:
    """Give the first few, of many: without a list of them all."""
    found = []
    for one in things:
        found.append(one)
        if len(found) == WIDE:
            break
    return found


def _codes(code: Any) -> list[Any]:
    """Give a code object and those inside it."""
    found = [code]
    for one in found:
        found.extend(inner for inner in one.co_consts if isinstance(inner, types.CodeType))
    return found


def _users(kind: type) -> list[type]:
    """Give the classes that a class is made of, but those of the great libraries."""
    return [one for one in kind.__mro__ if not _is_library(one.__module__)]


def _is_library(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES - {"__main__"}


def _is_local(thing: Any) -> bool:
    return "<l" in thing.__qualname__  # <lambda>, <locals>


def _unsendable(kind: type, name: str) -> bool:
    """Tell whether an object of the standard library's cannot be pickled."""
    import io

    if issubclass(kind, io.IOBase):
        return name not in _MEMORY
    generators = (types.GeneratorType, types.CoroutineType, types.ModuleType, types.FrameType)
    return name in _NEVER or issubclass(kind, generators)
