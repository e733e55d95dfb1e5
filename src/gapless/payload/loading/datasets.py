"""Look at what a loader loads from, without running any of it: its code's names, and its state.

What comes of it are facts that edits depend on: whether an iterable data set shares its samples
out among workers, whether workers would use CUDA, whether they could be sent the data set.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import types
from typing import Any

from ..overlay import iterations
from ..stacks import locations
from . import loader_facts

MAX_OBJECTS = 2_000  # things and functions looked at of one data set
MAX_MEMBERS = 64  # values looked at of one container or object
_MAX_NESTING = 8  # subsets of subsets
_PLAIN = (int, float, complex, bool, type(None), bytes, range, slice)
_NAMES = (str,)
_LIBRARIES = {"torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "builtins", "pandas"}
_LIBRARIES.update(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
_JPEG_LIBRARIES = {  # as ``parts.jpeg_decoders`` has them, and DALI; and their modules
    "simplejpeg": "simplejpeg",
    "opencv": "cv2",
    "turbojpeg": "turbojpeg",
    "torchvision": "torchvision",
    "dali": "nvidia.dali",
}
_RESIZERS = {"resize", "thumbnail"}  # methods of pictures
_PICKLERS = ("__getstate__", "__reduce__", "__reduce_ex__")  # of being pickled
_UNPICKLABLE = {"_thread.lock", "_thread.RLock", "sqlite3.Connection", "h5py._hl.files.File"}
_MEMORY_FILES = {"_io.BytesIO", "_io.StringIO"}  # these can be pickled


def values(loader: Any) -> dict[str, Any]:
    """Return the values of a FACT of noun "dataset"."""
    walk = _Walk()
    worker_init = getattr(loader, "worker_init_fn", None)
    for root in (loader.dataset, loader.collate_fn, worker_init):
        walk.state(root, sent=True)
    walk.finish()
    start_method = loader_facts.start_method(loader)
    sample_function = _sample_function(loader.dataset)
    return {
        "asks_worker_info": _asks_worker_info(loader, walk, worker_init),
        "cuda": None if walk.left <= 0 and not walk.cuda else walk.cuda,
        "picklable": _picklable(loader, walk, start_method),
        "worker_start": start_method,
        **_pipeline_values(loader.dataset),
        **_code_values(sample_function),
        "texts": _name_text_list(loader.dataset),
        "files": _name_file_list(loader.dataset),
        "decoders": _list_decoders(),
        **_location_values("sample", locations.of_function(sample_function)),
        **_location_values("collate", locations.of_function(loader.collate_fn)),
        **_location_values("sampler", _sampler_location(loader)),
    }


def _pipeline_values(dataset: Any) -> dict[str, Any]:
    """Return the transforms of torchvision's that samples go through, if there are such."""
    if "torchvision.transforms" not in sys.modules:
        return {}
    pipelines = iterations.import_part("pipelines")
    for pipeline in pipelines.find_pipelines(dataset):
        transforms = _members(pipeline.transforms)
        return {
            "pipeline": [type(transform).__name__ for transform in transforms],
            "to_floats": pipelines.count_transforms_to_floats(transforms),
        }
    return {}


def _list_decoders() -> list[str] | None:
    """Return the libraries here that decode JPEG files, too; None: Pillow is not in use."""
    if "PIL.Image" not in sys.modules:
        return None
    return [name for name, module in _JPEG_LIBRARIES.items() if _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # what finds it is broken
        return False


def _name_file_list(dataset: Any) -> str | None:
    """Return the list of paths that a data set, or one within it, has; None: it has none.

    As many as there are samples, where their number can be had without running any code.
    """
    for _ in range(_MAX_NESTING):
        for name, members in list(loader_facts.own_attributes(dataset).items()):
            if type(members) not in (list, tuple) or not members:
                continue
            first = members[0][0] if type(members[0]) is tuple and members[0] else members[0]
            is_path = isinstance(first, (str, pathlib.PurePath)) and os.path.isfile(first)
            if is_path and loader_facts.find_length(dataset) in (None, len(members)):
                return name
        dataset = _inner_dataset(dataset)
    return None


def _name_text_list(dataset: Any) -> str | None:
    """Return the list of texts or rows that a data set, or one within it, has; None: none."""
    buckets = iterations.import_part("batching.length_buckets")
    for _ in range(_MAX_NESTING):
        name = buckets.name_sized_list(dataset, loader_facts.find_length)
        if name is not None:
            return name
        dataset = _inner_dataset(dataset)
    return None


def _members(transforms: Any) -> list[Any]:
    return transforms[:MAX_MEMBERS] if type(transforms) is list else []


def _location_values(noun: str, location: locations.CodeLocation | None) -> dict[str, Any]:
    """Return where the user's function begins, if there is one."""
    names = (f"{noun}_file", f"{noun}_line", f"{noun}_function")
    return {} if location is None else dict(zip(names, location))


def _sample_function(dataset: Any) -> Any:
    """Return what makes samples: within subsets and chains of torch's, in the user's class."""
    for _ in range(_MAX_NESTING):
        for name in ("__getitems__", "__getitem__", "__iter__"):
            function = locations.of_class(type(dataset), name)
            if locations.of_function(function) is not None:
                return function
        dataset = _inner_dataset(dataset)
        if dataset is None:
            break
    return None


def _sampler_location(loader: Any) -> locations.CodeLocation | None:
    """Return where samples are chosen: in the user's batch sampler, or in the sampler within it."""
    for sampler in (loader.batch_sampler, loader.sampler):
        location = locations.of_function(locations.of_class(type(sampler), "__iter__"))
        if location is not None:
            return location
    return None


def _code_values(function: Any) -> dict[str, Any]:
    """Return what the user's code that makes samples names: the number 255, and new sizes."""
    code = getattr(function, "__code__", None)
    if code is None:
        return {"by_hand": None}
    numbers = [value for value in code.co_consts if type(value) in (int, float)]
    return {
        "by_hand": bool({255, 1 / 255}.intersection(numbers)),
        "resizes": not _RESIZERS.isdisjoint(code.co_names),
    }


def _inner_dataset(dataset: Any) -> Any:
    """Return the data set that another one is made of, as torch's own keep it."""
    attributes = loader_facts.own_attributes(dataset)
    datasets = attributes.get("datasets")
    inner = datasets[0] if type(datasets) in (list, tuple) and datasets else None
    return attributes.get("dataset", inner)


def _asks_worker_info(loader: Any, walk: _Walk, worker_init: Any) -> bool | None:
    """Return whether an iterable asks which worker it is in; None: not known, or no iterable."""
    kind = type(loader.dataset)
    if loader._dataset_kind == 0:
        return None
    if walk.worker_info:
        return True
    code = getattr(getattr(kind, "__iter__", None), "__code__", None)
    shared_out = worker_init is not None or any(
        base.__name__ == "IterDataPipe" for base in kind.__mro__
    )
    return None if code is None or shared_out or walk.left <= 0 else False


def _picklable(loader: Any, walk: _Walk, start_method: str) -> bool | None:
    if loader.num_workers and start_method != "fork":
        return True  # its workers could not have been started else
    return False if walk.stuck else None


class _Walk:
    """What was found so far."""

    def __init__(self) -> None:
        self.left = MAX_OBJECTS
        self.worker_info = self.cuda = self.stuck = False
        self.seen: set[int] = set()
        self.held: list[Any] = []  # so that no number of what was seen is given away
        self.functions: list[tuple[Any, bool]] = []

    def finish(self) -> None:
        """Look through the functions that were met, and those that they name."""
        while self.functions and self.left > 0:
            self._visit_function(*self.functions.pop())

    def state(self, obj: Any, *, sent: bool) -> None:
        """Look at an object and what it holds; ``sent``: a spawned worker would be sent it."""
        kind = type(obj)
        if issubclass(kind, _PLAIN) or self._is_visited(obj):
            return
        if issubclass(kind, _NAMES):
            self.cuda |= obj[:4] == "cuda"
        elif kind in (list, tuple, set, frozenset):
            self._visit_all(
                list(obj)[:MAX_MEMBERS] if len(obj) <= MAX_OBJECTS else _first_members(obj), sent
            )
        elif kind is dict:
            self._visit_all(list(obj.values())[:MAX_MEMBERS], sent)
        elif kind is types.MethodType:
            self.state(obj.__func__, sent=False)
            self.state(obj.__self__, sent=sent)
        elif kind is types.FunctionType:
            self.stuck |= sent and _is_local(obj)
            self.functions.append((obj, True))
        elif issubclass(kind, type):
            self._visit_class(obj, is_held=True)
        else:
            self._visit_instance(obj, kind, sent)

    def _visit_all(self, objects: Any, sent: bool) -> None:  # noqa: FBT001
        for obj in objects:
            self.state(obj, sent=sent)

    def _visit_instance(self, obj: Any, kind: type, sent: bool) -> None:  # noqa: FBT001
        name = f"{kind.__module__}.{kind.__qualname__}"
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(kind, torch.Tensor):
            self.cuda |= bool(obj.is_cuda)
            return
        if name == "torch.device":
            self.cuda |= obj.type == "cuda"
            return
        if _is_library(kind.__module__) and _is_unsendable(kind, name):
            self.stuck |= sent
            return
        self.stuck |= sent and (name in _UNPICKLABLE or _is_local(kind))
        self._visit_class(kind, is_held=True)
        attributes = loader_facts.own_attributes(obj)
        if attributes:
            pickles = any(way in vars(base) for base in _user_classes(kind) for way in _PICKLERS)
            self._visit_all(list(attributes.values())[:MAX_MEMBERS], sent and not pickles)

    def _visit_class(self, kind: type, *, is_held: bool) -> None:
        for base in _user_classes(kind):
            if self._is_visited(base):
                continue
            for name, value in list(vars(base).items()):
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(function, types.FunctionType):
                    self.functions.append((function, is_held and name != "__init__"))

    def _visit_function(self, function: Any, is_held: bool) -> None:  # noqa: FBT001
        """Look at the names in a function; ``is_held``: it is the data set's, or held by it."""
        if self._is_visited(function.__code__):
            return
        names: set[str] = set()
        for code in _nested_codes(function.__code__):
            names.update(code.co_names)
            texts = [constant for constant in code.co_consts if isinstance(constant, str)]
            self.cuda |= is_held and any(text[:4] == "cuda" for text in texts)
        self.worker_info |= any("worker_info" in name for name in names)
        self.cuda |= is_held and "cuda" in names
        namespace = function.__globals__
        for value in [namespace[name] for name in names if name in namespace]:
            self._visit_global(value, names, is_held)

    def _visit_global(self, value: Any, names: set[str], is_held: bool) -> None:  # noqa: FBT001
        if isinstance(value, types.FunctionType) and not _is_library(value.__module__):
            self.functions.append((value, is_held))
        elif isinstance(value, type):
            self._visit_class(value, is_held=False)
        elif type(value) is types.ModuleType and not _is_library(value.__name__):
            for inner in [vars(value).get(name) for name in names]:
                if isinstance(inner, types.FunctionType):
                    self.functions.append((inner, is_held))

    def _is_visited(self, obj: Any) -> bool:
        """Return whether a thing was met before, or there is no time for more."""
        if self.left <= 0 or id(obj) in self.seen:
            return True
        self.left -= 1
        self.seen.add(id(obj))
        self.held.append(obj)
        return False


def _first_members(container: Any) -> list[Any]:
    """Return the first few, of many: without a list of them all."""
    members = []
    for member in container:
        members.append(member)
        if len(members) == MAX_MEMBERS:
            break
    return members


def _nested_codes(code: Any) -> list[Any]:
    """Return a code object and those inside it."""
    codes = [code]
    for outer in codes:
        codes.extend(inner for inner in outer.co_consts if isinstance(inner, types.CodeType))
    return codes


def _user_classes(kind: type) -> list[type]:
    """Return the classes that a class is made of, but those of the great libraries."""
    return [base for base in kind.__mro__ if not _is_library(base.__module__)]


def _is_library(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES - {"__main__"}


def _is_local(definition: Any) -> bool:
    return "<l" in definition.__qualname__  # <lambda>, <locals>


def _is_unsendable(kind: type, name: str) -> bool:
    """Return whether an object of the standard library's cannot be pickled."""
    import io

    if issubclass(kind, io.IOBase):
        return name not in _MEMORY_FILES
    generators = (types.GeneratorType, types.CoroutineType, types.ModuleType, types.FrameType)
    return name in _UNPICKLABLE or issubclass(kind, generators)
