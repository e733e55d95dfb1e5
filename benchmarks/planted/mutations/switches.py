"""Faults that a switch or a habit makes: debugging, precision, chores, and harmless decoys."""

import ast
from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.plant import (
    BOTH,
    CUDA,
    DECOY,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
)
from benchmarks.planted.places import model_call
from benchmarks.planted.source import Change, Insertion, Replacement

_CHORE: Final = ("G214", "G202")


def _top(text: str) -> ChangeOf:
    """Put lines behind the imports at the top."""
    return lambda site: [at_top(site, text)] if site.step is not None else None


def _first_step(text: str) -> ChangeOf:
    """Put lines before the model's call that act once: ``{model}`` is the model."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if hit is None:
            return None
        statement, call = hit
        model = site.source.segment(call.func)
        return [
            at_top(site, "_once = []\n"),
            Insertion(statement.lineno, text.replace("{model}", model), statement.col_offset),
        ]

    return change


def _evaluated(*, autograd: bool) -> ChangeOf:
    """Evaluate on the batch at hand, over and over, every tenth step."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if step is None or hit is None:
            return None
        call = " ".join(site.source.segment(hit[1]).split())
        model = site.source.segment(hit[1].func)
        guard = "enable_grad" if autograd else "no_grad"
        text = (
            "_evaluations.append(0)\n"
            "if len(_evaluations) % 10 == 0:\n"
            f"    {model}.eval()\n"
            f"    with _torch.{guard}():\n"
            "        for _ in range(10):\n"
            f"            {call}\n"
            f"    {model}.train()"
        )
        line = (step.after.end_lineno or step.after.lineno) + 1
        return [
            at_top(site, "import torch as _torch\n_evaluations = []\n"),
            Insertion(line, text, step.after.col_offset),
        ]

    return change


def _single_precision(site: Site) -> Sequence[Change] | None:
    """Switch automatic precision off where a script uses it."""
    changes: list[Change] = []
    for node in ast.walk(site.source.tree):
        if isinstance(node, ast.Call) and site.source.segment(node.func).endswith("autocast"):
            kept = [keyword for keyword in node.keywords if keyword.arg != "enabled"]
            parts = [site.source.segment(argument) for argument in (*node.args, *kept)]
            name = site.source.segment(node.func)
            changes.append(Replacement(node, f"{name}({', '.join([*parts, 'enabled=False'])})"))
    return changes or None


def _hand_written(site: Site) -> Sequence[Change] | None:
    """Have attention written out by hand where a script can do either."""
    for node in ast.walk(site.source.tree):
        if isinstance(node, ast.Assign) and site.source.segment(node.targets[0]).endswith("flash"):
            return [Replacement(node.value, "False")]
    return None


_DOUBLE: Final = (
    "if not _once:\n"
    "    _once.append({model}.double())\n"
    "    {model}.register_forward_pre_hook(lambda _m, _a: tuple("
    "_x.double() if hasattr(_x, 'is_floating_point') and _x.is_floating_point() else _x"
    " for _x in _a))\n"
    "    {model}.register_forward_hook(lambda _m, _a, _o:"
    " _o.float() if hasattr(_o, 'float') else _o)"
)
_CHECKPOINT: Final = (
    "_torch.save([_parameter.detach().cpu() for _parameter in {parameters}], 'planted.pt')"
)
_LOG: Final = (
    "with open('planted.csv', 'a') as _log:\n"
    "    for _parameter in {parameters}:\n"
    "        _log.write(f'{_parameter.detach().abs().mean().item()},')\n"
    "        _log.flush()\n"
    "    _os.fsync(_log.fileno())"
)

PLANTS: Final = (
    Plant(
        "anomaly-mode",
        "debug-switches",
        _top("import torch as _torch\n_torch.autograd.set_detect_anomaly(True)"),
        ("G209",),
        ("debug-off",),
        "any",
    ),
    Plant(
        "profiler-left-on",
        "debug-switches",
        _top("import torch.autograd.profiler as _profiler\n_profiler.profile().__enter__()"),
        ("G212",),
        ("debug-off",),
        "any",
    ),
    Plant(
        "blocking-launches",
        "debug-switches",
        _top("import os as _os\n_os.environ['CUDA_LAUNCH_BLOCKING'] = '1'"),
        ("G210",),
        ("debug-off",),
        "any",
        CUDA,
    ),
    Plant(
        "emptied-cache",
        "allocating",
        before_backward("import torch as _torch\n_torch.cuda.empty_cache()"),
        ("G401",),
        ("no-empty-cache",),
        "line",
        CUDA,
    ),
    Plant("double-precision", "precision", _first_step(_DOUBLE), ("G503", "G508"), (), "any"),
    Plant(
        "no-automatic-precision",
        "precision",
        _single_precision,
        ("G501", "G502"),
        ("bf16", "fp16", "tf32"),
        "any",
        CUDA,
    ),
    Plant("attention-by-hand", "attention", _hand_written, ("G505",), ("sdpa",), "any"),
    Plant(
        "checkpoint-each-step",
        "checkpoints",
        after_step(_CHECKPOINT, "import torch as _torch\n"),
        ("G701", *_CHORE),
        ("no-checkpoint", "checkpoint-every"),
        at_line=True,
    ),
    Plant(
        "evaluated-often",
        "evaluations",
        _evaluated(autograd=False),
        ("G703", "G704", *_CHORE),
        ("no-evaluation", "evaluate-every"),
        at_line=True,
    ),
    Plant(
        "evaluated-with-autograd",
        "evaluations",
        _evaluated(autograd=True),
        ("G703", "G704", *_CHORE),
        ("no-evaluation", "evaluate-every"),
        at_line=True,
    ),
    Plant(
        "many-threads",
        "threads",
        _top("import torch as _torch\n_torch.set_num_threads(12)"),
        ("G113", "G103"),
        ("intra-op-threads", "one-thread"),
        "any",
        ("cpu",),
    ),
    Plant(
        "logged-and-flushed",
        "logging",
        after_step(_LOG, "import os as _os\n"),
        ("G702", "G305", *_CHORE),
        ("no-logging", "log-every"),
        at_line=True,
    ),
    Plant(
        "histograms-each-step",
        "logging",
        after_step(
            "_histograms = [_parameter.detach().float().cpu().histc(64).tolist()"
            " for _parameter in {parameters}]"
        ),
        ("G702", "G305", "G308", "G302", *_CHORE),
        ("no-logging", "log-every"),
        at_line=True,
    ),
    Plant(
        "collected-each-step",
        "collecting",
        after_step("_gc.collect()", "import gc as _gc\n"),
        ("G208",),
        ("collector",),
        at_line=True,
    ),
    Plant(
        "growing-history",
        "growing",
        before_backward(
            "_history.append([float(i) for i in range(500)])\n"
            "_mean = sum(sum(_row) for _row in _history[-200:]) / len(_history)",
            "_history = []\n",
        ),
        _CHORE,
        at_line=True,
    ),
)

DECOYS: Final = (
    ("read-seldom", "_count.append(0)\nif len(_count) % 50 == 0:\n    float({loss})"),
    ("printed-seldom", "_count.append(0)\nif len(_count) % 50 == 0:\n    print('planted')"),
    ("contiguous", "_same = {loss}.contiguous()"),
    ("tiny-tensor", "_tiny = _torch.tensor([1.0, 2.0])"),
    ("asked-for-device", "_there = _torch.cuda.is_available()"),
    ("clock-read", "_now = _time.perf_counter()"),
    ("log-off", "_logging.getLogger('planted').debug('a step')"),
    ("small-dictionary", "_row = {'loss': 0, 'step': len(_count)}"),
)
_IMPORTS: Final = (
    "import logging as _logging\nimport time as _time\nimport torch as _torch\n_count = []\n"
)


def _harmless(text: str) -> ChangeOf:
    def change(site: Site) -> Sequence[Change] | None:
        changes = before_backward(text)(site)
        return [at_top(site, _IMPORTS), *changes] if changes else None

    return change


HARMLESS: Final = tuple(
    Plant(f"decoy-{name}", DECOY, _harmless(text), devices=BOTH) for name, text in DECOYS
)
