"""Faults of the way in which batches are made: loader knobs, slow items, restarts, threads."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.plant import (
    CUDA,
    ChangeOf,
    Plant,
    Site,
    at_top,
    filled_in,
)
from benchmarks.planted.places import loaders, with_keywords
from benchmarks.planted.source import Change, Replacement

_FEW: Final = ("G101", "G102")
_MORE: Final = ("more-workers", "workers-and-one-thread", "persistent-workers")


def _knobs(values: dict[str, str], *, unless: tuple[str, ...] = ()) -> ChangeOf:
    """Set arguments of the first loader; ``unless``: any of these texts in its call."""

    def change(site: Site) -> Sequence[Change] | None:
        calls = loaders(site.source)
        if not calls or any(word in site.source.segment(calls[0]) for word in unless):
            return None
        return [with_keywords(site.source, calls[0], values)]

    return change


def _no_workers(site: Site) -> Sequence[Change] | None:
    """Take away the workers of a loader that has some."""
    calls = [call for call in loaders(site.source) if call.keywords]
    if not calls or "num_workers" not in site.source.text:
        return None
    values = {"num_workers": "0", "persistent_workers": "False", "prefetch_factor": "None"}
    return [with_keywords(site.source, calls[0], values)]


def _wrapped(text: str, imports: str = "") -> ChangeOf:
    """Wrap the data set of the first loader in a class whose items do something more."""

    def change(site: Site) -> Sequence[Change] | None:
        calls = [call for call in loaders(site.source) if call.args]
        if not calls:
            return None
        body = "".join(f"        {row}\n" for row in filled_in(text, site).splitlines())
        wrapper = (
            f"{imports}class _Items:\n"
            "    def __init__(self, items):\n"
            "        self.items = items\n\n"
            "    def __len__(self):\n"
            "        return len(self.items)\n\n"
            "    def __getitem__(self, index):\n"
            f"{body}"
            "        return self.items[index]\n"
        )
        first = calls[0].args[0]
        inner = " ".join(site.source.segment(first).split())
        return [at_top(site, wrapper), Replacement(first, f"_Items({inner})")]

    return change


def _collated(site: Site) -> Sequence[Change] | None:
    """Collate batches value by value."""
    calls = loaders(site.source)
    if not calls or "collate_fn" in site.source.segment(calls[0]):
        return None
    text = (
        "from torch.utils.data import default_collate as _default_collate\n\n\n"
        "def _collate(samples):\n"
        "    rows = [[str(float(i) * 0.5) for i in range({each})] for _ in samples]\n"
        "    assert rows\n"
        "    return _default_collate(samples)\n"
    )
    text = text.replace("{each}", str(max(50, int(0.4e3 * site.step_s * 4_000 / 64))))
    call = with_keywords(site.source, calls[0], {"collate_fn": "_collate"})
    return [at_top(site, text), call]


_MANY: Final = """_written = _Path(_tempfile.gettempdir()) / "planted-items"
_written.mkdir(exist_ok=True)
for _number in range(40):
    _file = _written / f"{_number}.json"
    if not _file.exists():
        _file.write_text(_json.dumps([{"x": _value, "y": [_value] * 4} for _value in range(200)]))


"""
_FILES: Final = (
    "import json as _json\nimport tempfile as _tempfile\nfrom pathlib import Path as _Path\n"
)


def _both(site: Site) -> Sequence[Change] | None:
    """Let items wait for something remote, with a single worker to wait for them."""
    slow = _wrapped("_time.sleep({item})", "import time as _time\n\n\n")(site)
    calls = [call for call in loaders(site.source) if call.args]
    if not slow or not calls or "num_workers" in site.source.segment(calls[0]):
        return None
    call = with_keywords(site.source, calls[0], {"num_workers": "1", "persistent_workers": "True"})
    inner = site.source.segment(calls[0].args[0])
    flat = " ".join(inner.split())
    return [slow[0], Replacement(calls[0], call.text.replace(flat, f"_Items({flat})", 1))]


def _unpinned(site: Site) -> Sequence[Change] | None:
    """Take away the pinning of a loader that has it."""
    calls = loaders(site.source)
    if not calls or "pin_memory" not in site.source.text:
        return None
    return [with_keywords(site.source, calls[0], {"pin_memory": "False"})]


PLANTS: Final = (
    Plant("workers-zero", "loader-knobs", _no_workers, ("G101",), _MORE, "loader"),
    Plant(
        "one-worker-of-items",
        "loader-knobs",
        _both,
        ("G101", "G102", "G106", "G112"),
        (*_MORE, "prefetch"),
        "loader",
    ),
    Plant(
        "unpinned",
        "loader-knobs",
        _unpinned,
        ("G301", "G302", "G111"),
        ("pin-memory", "non-blocking", "device-prefetcher"),
        "loader",
        CUDA,
    ),
    Plant(
        "sleep-in-item",
        "slow-items",
        _wrapped("_time.sleep({item})", "import time as _time\n\n\n"),
        (*_FEW, "G106", "G112", "G117"),
        (*_MORE, "prefetch"),
        "loader",
    ),
    Plant(
        "heavy-tailed-items",
        "slow-items",
        _wrapped("if index % 97 == 0:\n    _time.sleep({tail})", "import time as _time\n\n\n"),
        (*_FEW, "G104", "G106", "G112", "G117"),
        (*_MORE, "prefetch", "out-of-order"),
        "loader",
    ),
    Plant(
        "files-parsed-again",
        "item-files",
        _wrapped("_json.loads((_written / f'{index % 40}.json').read_text())", f"{_FILES}{_MANY}"),
        (*_FEW, "G106", "G107", "G108", "G112"),
        _MORE,
        "loader",
    ),
    Plant(
        "small-files-read",
        "item-files",
        _wrapped(
            "for _number in range(8):\n"
            "    (_written / f'{(index + _number) % 40}.json').read_bytes()",
            f"{_FILES}{_MANY}",
        ),
        (*_FEW, "G106", "G107", "G112"),
        _MORE,
        "loader",
    ),
    Plant(
        "python-in-item",
        "item-work",
        _wrapped("assert sum(i * i for i in range({each})) >= 0"),
        (*_FEW, "G107", "G108", "G109", "G112"),
        _MORE,
        "loader",
    ),
    Plant(
        "arrays-in-item",
        "item-work",
        _wrapped(
            "_numpy.sort(_numpy.random.default_rng(index).random({values}))",
            "import numpy as _numpy\n\n\n",
        ),
        (*_FEW, "G107", "G108", "G112"),
        _MORE,
        "loader",
    ),
    Plant("slow-collate", "collating", _collated, (*_FEW, "G110"), _MORE, "loader"),
    Plant(
        "restarted-workers",
        "restarts",
        _knobs({"num_workers": "2", "persistent_workers": "False"}, unless=("num_workers",)),
        ("G105", "G102", "G103", "G115"),
        ("persistent-workers",),
        "loader",
    ),
    Plant(
        "too-many-workers",
        "oversubscription",
        _knobs({"num_workers": "12", "persistent_workers": "False"}),
        ("G103", "G105", "G113", "G115"),
        ("persistent-workers", "more-workers", "worker-threads", "workers-and-one-thread"),
        "loader",
    ),
)
