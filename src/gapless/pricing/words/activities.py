"""Parts of sentences: what a step does, by leaves, and who makes the batches that it waits for."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gapless.catalogue.queries import between_operators, samples
from gapless.catalogue.queries.input.fetch_waits import MIN_LOOKS, WAIT_PHRASES
from gapless.catalogue.queries.input.loaders import percent
from gapless.model.edit import short_path
from gapless.model.evidence import Evidence
from gapless.model.host_code import HostCode, HotLine
from gapless.model.run import LoaderUse

MOSTLY: Final = 0.6  # of a group: one of its leaves stands for it
_MIN_SAMPLE_SHARE: Final = 0.1  # of the samples: a line with fewer is not named
_MAX_LINES: Final = 2
_UNKNOWN: Final = "busy.other"
_MAX_OPERATORS: Final = 2  # operators of no known kind that are named
_RECURRENT: Final = "recurrent layers"  # products and more, in one operator per layer or call
_RECURRENT_LAYER: Final = re.compile(r"(?:^|:|_)(?:lstm|gru|rnn)(?:$|_)")
_OWN_CODE: Final = "idle.data.other"
_LOADS_ITSELF: Final = "the training process loads itself"
_TRACED_SILENCE: Final = "in code of the script, or in what that waits for"  # no trace tells them
_CODE_PHRASES: Final = {  # by kinds of code
    **WAIT_PHRASES,
    "file": "reading or writing files",
    "lock": "waiting for another thread",
}
# Of a group, by its largest leaf.
LEAF_PHRASES: Final[Mapping[str, str]] = {
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
    "idle.comm.host": "starting collectives",
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


def largest_leaf(evidence: Evidence, group: str) -> str | None:
    """Return the largest leaf of a group; ``None``: nothing is charged to it."""
    leaves_ns = evidence.account.parts.get(group, {})
    return max(leaves_ns, key=lambda leaf: leaves_ns[leaf], default=None)


def describe_kind(evidence: Evidence, leaf: str) -> str:
    """Describe a leaf of computing; one of no known kind by its largest operators."""
    if leaf != _UNKNOWN:
        return LEAF_PHRASES[leaf]
    ns_by_operator = Counter[str]()
    for work in evidence.study.work:
        if work.leaf == leaf:
            ns_by_operator[
                _RECURRENT if _RECURRENT_LAYER.search(work.operator) else work.operator
            ] += work.ns
    top_operators = ns_by_operator.most_common(_MAX_OPERATORS)
    for count in range(1, len(top_operators) + 1):
        if sum(ns for _, ns in top_operators[:count]) >= MOSTLY * ns_by_operator.total():
            return " and ".join(name for name, _ in top_operators[:count])
    return LEAF_PHRASES[leaf]


def describe_code(evidence: Evidence, leaf: str) -> str:
    """Describe what the thread's own code does, as it was sampled: Python, a library, or a wait."""
    code = find_code(evidence)
    if code is None:
        return _TRACED_SILENCE if evidence.is_trace_only else LEAF_PHRASES[leaf]
    if code.kind == "python":
        return LEAF_PHRASES[leaf] if code.library is None else f"in {code.library}"
    return _CODE_PHRASES.get(code.kind, LEAF_PHRASES[leaf])


def describe_call(code: HostCode | None, line_ref: str) -> str:
    """Describe the call below which code was sampled, after what it does."""
    is_wait = code is not None and code.kind != "python"
    return f", below {line_ref}" if is_wait else f" that {line_ref} calls"


def find_code(evidence: Evidence) -> HostCode | None:
    """Return the function in which most of what the thread does itself was sampled."""
    python_ns = evidence.per_step(*between_operators.PYTHON_LEAVES)
    return samples.find_explaining_code(evidence, python_ns)


def name_waiter(evidence: Evidence) -> str:
    """Return who has nothing to compute meanwhile."""
    if not evidence.on_device:
        return "the training thread"
    has_several = (evidence.recorded.devices or 1) > 1
    return "each GPU" if has_several or len(evidence.study.run.ranks) > 1 else "the GPU"


def describe_samples(evidence: Evidence) -> str:
    """Describe the lines at which sampled stacks of the training thread were most often, if any.

    Where the user's script leaves all to a package's trainer, they are the package's.
    """
    lines = [line for line in evidence.hot_lines if line.thread == "training"]
    within = evidence.recorded.trainer_lines
    line_refs = _format_lines(_read_shares(within)) or _format_lines(_read_shares(lines))
    return f"; stacks sampled in all steps stood mostly at {line_refs}" if line_refs else ""


def describe_host_samples(evidence: Evidence) -> str:
    """Describe the lines at which they were most often outside operators, where samples tell."""
    lines = [line for line in evidence.host_code if line.file]
    if not evidence.host_code or evidence.recorded.trainer_lines:
        return describe_samples(evidence)
    line_refs = _format_lines((line.file, line.line, line.share * line.inside) for line in lines)
    return f"; stacks sampled outside operators stood mostly at {line_refs}" if line_refs else ""


def _read_shares(lines: Iterable[HotLine]) -> Iterator[tuple[str, int, float]]:
    return ((line.file, line.line, line.share) for line in lines)


def _format_lines(lines: Iterable[tuple[str | None, int | None, float]]) -> str:
    """Return the first lines that hold much, each with its share."""
    frequent_lines = [line for line in lines if line[2] >= _MIN_SAMPLE_SHARE][:_MAX_LINES]
    return " and ".join(
        f"{_file_name(file)}:{number} ({percent(share)})" for file, number, share in frequent_lines
    )


def _file_name(file: str | None) -> str:
    return short_path(file or "")


def describe_data_wait(evidence: Evidence) -> str:
    """Describe who makes the batches, at which line, and what takes most of that."""
    stage, use = _main_stage(evidence), _most_waited_use(evidence)
    if use is None:
        maker = _LOADS_ITSELF if largest_leaf(evidence, "data") == "idle.data.main" else ""
    else:
        maker = _describe_maker(use)
    line_ref = _format_line(use)
    if maker == _LOADS_ITSELF and not evidence.on_device:
        mostly = "" if stage is None else f", mostly {stage}"
        return f"goes to loading data, which the training process does itself{line_ref}{mostly}"
    aim = "" if stage is not None and stage == _main_wait(evidence) else "for "
    mostly = "" if stage is None else f", mostly {aim}{stage}"
    loads = f", which {maker}{line_ref}" if maker else ""
    return f"{name_waiter(evidence)} waits for data{loads}{mostly}"


def _most_waited_use(evidence: Evidence) -> LoaderUse | None:
    """Return the loader with the longest waits; ``None`` where none was used."""
    uses = evidence.loader_uses
    longest = max(uses, key=lambda use: use.share or 0.0, default=None)
    return longest if longest is not None and longest.waits else None


def _format_line(use: LoaderUse | None) -> str:
    file = "" if use is None else _file_name(use.file)
    return f" ({file}:{use.line})" if use is not None and file else ""


def _describe_maker(use: LoaderUse) -> str:
    n_workers = use.settings.get("num_workers")
    if n_workers == 0 or (
        n_workers is None and use.workers is not None and not use.workers.processes
    ):
        return _LOADS_ITSELF
    if not isinstance(n_workers, int):
        return "workers load"
    return f"{n_workers} worker{'s load' if n_workers > 1 else ' loads'}"


def _main_stage(evidence: Evidence) -> str | None:
    leaf = largest_leaf(evidence, "data")
    data_ns = evidence.per_step("idle.data.")
    if leaf is None or evidence.per_step(leaf) < MOSTLY * data_ns:
        return None
    wait = _main_wait(evidence) if leaf == _OWN_CODE else None
    return LEAF_PHRASES.get(leaf) if wait is None else wait


def _main_wait(evidence: Evidence) -> str | None:
    """Describe what the data set's own code waits for most of the time, if samples tell."""
    wait = next(iter(evidence.fetch_waits), None)
    if wait is None or wait.looks < MIN_LOOKS or wait.share < MOSTLY:
        return None
    return f"{WAIT_PHRASES[wait.kind]} ({_file_name(wait.file)}:{wait.line})"
