"""Copies, files, figures and metrics that no step needs to train, and that steps make."""

from collections import Counter
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import MS, STEPS, source
from gapless.model.change import Change, Hosted
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Site

# Packages whose functions copy, write down, measure or draw what was trained (``study`` tells).
_CHORES: Final = ("copy", "csv", "json", "matplotlib", "pprint", "seaborn", "sklearn", "statistics")
_MORE: Final = ("torch.Tensor", "torchmetrics", "yaml")
_PYTHON: Final = ("idle.host.python", "idle.host.unframed")
# A profiler that records each call of Python makes such code 1.5 times as slow, 2.5 at most
# (Python-bound trainings under it were 1.5 to 2.1 times as slow).
# So is the step that it records, less: of the share that it shows at least 0.4 is true.
_TRUE: Final = Interval(0.4, 0.75, 1.0)
_LEAST: Final = 0.01  # of the step
_MOST: Final = 0.95  # of some leaves


def _called(name: str, function: str, ms: float, calls: float = 1) -> Site:
    return Site(name, "train.py", 54, function, round(ms * STEPS * MS), round(calls * STEPS))


@rule(
    "G214",
    "chores-in-step",
    since="0.1",
    figures=[
        Figure(
            "The best state is copied in each step",
            "copy.deepcopy, called 2× a step, takes 7.5 ms of each 30.0 ms step, as far as can be "
            "told under a profiler of Python.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 10},
                _called("copy.deepcopy", "train", 12, calls=2),
                source("train.py", 40, "train", calls=0, host=36, total=36),
            ),
        ),
        Figure(
            "A line of JSON in each step",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 10},
                _called("json.dumps", "train", 0.1),
            ),
        ),
    ],
)
def chores_in_step(seen: Seen) -> Loss | None:
    """Recognise copies, files, figures and metrics in the step that training does not need.

    ## Why it costs time
    Copying the whole state of a model and its optimizer (``copy.deepcopy``), writing JSON, printing
    tensors, drawing figures or computing metrics on the host takes as long after a step as it takes
    after an epoch; in each step it is paid a thousand times as often.

    ## How it is measured
    By calls of ``copy``, ``json``, ``csv``, ``yaml``, ``pprint``, ``statistics``, ``sklearn``,
    ``torchmetrics``, ``matplotlib`` and ``seaborn``, and of tensors turned into text, in the window
    with stacks, outside of loaders, evaluations, checkpoints and loggers, which have rules of their
    own. A profiler that records each call of Python slows such code down: of the share that it
    shows 40 to 100 % are taken. On a device it is at most what the device waits for Python.
    """
    step = seen.step_ns
    found = Counter[str]()
    for one in seen.study.sites:
        if one.name.startswith(tuple(f"{name}." for name in (*_CHORES, *_MORE))):
            found[one.name] += one.ns
    if not step or not found:
        return None
    shown = step * found.total() / windowed.looped_ns(seen)
    if _TRUE.mid * shown < _LEAST * step:
        return None
    name = found.most_common(1)[0][0]
    calls = sum(one.calls for one in seen.study.sites if one.name == name)
    others = ", and others," if len(found) > 1 else ""
    told = f"{name}, called {windowed.times(calls / windowed.steps(seen))}× a step,{others}"
    return chores_in_step.loss(
        f"{told} takes {windowed.of_step(seen, _TRUE.mid * shown)}, as far "
        "as can be told under a profiler of Python.",
        _gone(seen, shown),
        where=_caller(seen, name),
        evidence=(Measure("of a step, as the profiler shows it", shown / step, "share"),),
        no_remedy=(
            "do it every so many steps, or once an epoch; a state that is kept in memory can be "
            "copied into tensors made once (copy_ under torch.no_grad()), and only when it is to "
            "be kept"
        ),
        inferred=True,
    )


def _gone(seen: Seen, shown: float) -> Change:
    """Give what changes without such calls: Python, and on the host what operators they call."""
    leaves = _PYTHON if seen.on_device else (*_PYTHON, "busy.")
    whole = seen.per_step(*leaves)
    low, mid, high = (
        1 - min(_MOST, part * shown / whole) if whole else 1.0
        for part in (_TRUE.high, _TRUE.mid, _TRUE.low)
    )
    return Hosted(leaves, Interval(low, mid, high))


def _caller(seen: Seen, name: str) -> Where | None:
    """Give the user's function that such calls take most time in."""
    mine = [one for one in seen.study.sites if one.name == name]
    most = max(mine, key=lambda one: one.ns, default=None)
    return None if most is None else Where(most.file, most.line, most.function)
