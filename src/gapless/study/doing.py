"""Parts of sentences: what a step does, by leaves, and who makes the batches that it waits for."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from gapless.catalogue.loading import percent
from gapless.model.run import LoaderUse
from gapless.model.seen import Seen

MOSTLY: Final = 0.6  # of a group: one of its leaves stands for it
_OFTEN: Final = 0.1  # of the samples: a line where fewer stood is not named
_LINES: Final = 2
_UNKNOWN: Final = "busy.other"
_OPERATORS: Final = 2  # of no known kind: so many are named at the most
_RECURRENT: Final = "recurrent layers"  # products and more, in one operator a layer or a call
_RECURRENT_LAYER: Final = re.compile(r"(?:^|:|_)(?:lstm|gru|rnn)(?:$|_)")
_HOME: Final = "the training process loads itself"
# Of a group, by its largest leaf.
DOING: Final[Mapping[str, str]] = {
    "idle.data.read": "reading them",
    "idle.data.decode": "decoding them",
    "idle.data.augment": "augmenting them",
    "idle.data.tokenise": "tokenising them",
    "idle.data.collate": "putting samples together",
    "idle.data.other": "the data set's own code",
    "idle.data.start-up": "starting workers",
    "idle.data.hand-over": "handing batches over to the training",
    "idle.data.pin": "pinning batches",
    "idle.data.sampler": "choosing which samples to take",
    "idle.data.queue": "workers that are still at other batches",
    "idle.host.python": "in Python code",
    "idle.host.unframed": "in Python code",
    "idle.host.optimizer": "in the Python of the optimizer",
    "idle.host.dispatch": "busy calling operators",
    "idle.host.engine": "in the autograd engine",
    "idle.launch.api": "busy launching kernels",
    "idle.launch.latency": "launching kernels one at a time, each of which begins a little later",
    "busy.math": "matrix products and convolutions",
    "busy.tc_math": "matrix products and convolutions on tensor cores",
    "busy.tc_eligible_not_used": "matrix products and convolutions off tensor cores",
    "busy.elementwise": "elementwise operations",
    "busy.norm_reduce": "norms and reductions",
    "busy.optimizer": "the optimizer's operators",
    "busy.index": "indexing",
    "busy.rng": "random numbers",
    "busy.layout": "changes of layout",
    "busy.cast": "casts",
    "busy.mem": "fills and copies",
    "busy.other": "operators of no known kind",
}


def largest(seen: Seen, group: str) -> str | None:
    """Give the leaf that most of a group is charged to; ``None``: nothing is."""
    mine = seen.account.parts.get(group, {})
    return max(mine, key=lambda leaf: mine[leaf], default=None)


def of_kind(seen: Seen, leaf: str) -> str:
    """Say what a leaf of computing is; of no known kind: by the operators that most of it is."""
    if leaf != _UNKNOWN:
        return DOING[leaf]
    took = Counter[str]()
    for one in seen.study.work:
        if one.leaf == leaf:
            took[_RECURRENT if _RECURRENT_LAYER.search(one.operator) else one.operator] += one.ns
    most = took.most_common(_OPERATORS)
    for number in range(1, len(most) + 1):
        if sum(ns for _, ns in most[:number]) >= MOSTLY * took.total():
            return " and ".join(name for name, _ in most[:number])
    return DOING[leaf]


def who(seen: Seen) -> str:
    """Name who has nothing to compute meanwhile."""
    if not seen.on_device:
        return "the training thread"
    recorded = seen.study.recorded
    several = recorded is not None and (recorded.devices or 1) > 1
    return "each GPU" if several or len(seen.study.run.ranks) > 1 else "the GPU"


def stood(seen: Seen) -> str:
    """Say at which lines sampled stacks of the training thread stood most often; "": nowhere."""
    every = () if seen.study.recorded is None else seen.study.recorded.lines
    mine = [one for one in every if one.thread == "training" and one.share >= _OFTEN][:_LINES]
    told = [f"{_short(one.file)}:{one.line} ({percent(one.share)})" for one in mine]
    return f"; stacks sampled in all steps stood mostly at {' and '.join(told)}" if told else ""


def stood_outside(seen: Seen) -> str:
    """Say at which lines they stood most often outside of operators, where samples part the two."""
    every = () if seen.study.recorded is None else seen.study.recorded.host_code
    if not every:
        return stood(seen)
    mine = [one for one in every if one.file and one.share * one.inside >= _OFTEN][:_LINES]
    told = [f"{_short(one.file)}:{one.line} ({percent(one.share * one.inside)})" for one in mine]
    return (
        f"; stacks sampled outside operators stood mostly at {' and '.join(told)}" if told else ""
    )


def _short(file: str | None) -> str:
    return (file or "").replace("\\", "/").rpartition("/")[2]


def fed(seen: Seen) -> str:
    """Say who makes the batches, at which line, and with what most of it goes."""
    doing, used = _stage(seen), _most_waited(seen)
    if used is None:
        maker = _HOME if largest(seen, "data") == "idle.data.main" else ""
    else:
        maker = _maker(used)
    place = _line(used)
    if maker == _HOME and not seen.on_device:
        mostly = "" if doing is None else f", mostly {doing}"
        return f"goes to loading data, which the training process does itself{place}{mostly}"
    mostly = "" if doing is None else f", mostly for {doing}"
    loads = f", which {maker}{place}" if maker else ""
    return f"{who(seen)} waits for data{loads}{mostly}"


def _most_waited(seen: Seen) -> LoaderUse | None:
    """Give the loader that was waited for most; ``None`` where none was used."""
    uses = () if seen.study.recorded is None else seen.study.recorded.loaders
    used = max(uses, key=lambda one: one.share or 0.0, default=None)
    return used if used is not None and used.waits else None


def _line(used: LoaderUse | None) -> str:
    file = "" if used is None else _short(used.file)
    return f" ({file}:{used.line})" if used is not None and file else ""


def _maker(used: LoaderUse) -> str:
    many = used.settings.get("num_workers")
    if many == 0 or (many is None and used.workers is not None and not used.workers.processes):
        return _HOME
    if not isinstance(many, int):
        return "workers load"
    return f"{many} worker{'s load' if many > 1 else ' loads'}"


def _stage(seen: Seen) -> str | None:
    leaf = largest(seen, "data")
    whole = seen.per_step("idle.data.")
    if leaf is None or seen.per_step(leaf) < MOSTLY * whole:
        return None
    return DOING.get(leaf)
