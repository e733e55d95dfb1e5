"""Calls of a whole program as a file for speedscope, and for what reads its format.

The format: https://www.speedscope.app/file-format-schema.json. Of each thread one profile of the
kind "sampled": a stack for each chain of calls that spent time itself, with that time as weight.
Samples are counted when they are recorded: their order is that of the tree, not of time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gapless.model.calls import CallNode, CallTree
from gapless.model.version import version
from gapless.report.sections.calls import call_name
from gapless.report.text.text import clean

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_FrameKey = tuple[str, str]  # its name and its file
_RARE: Final = ("stacks too rare to be kept", "")


def speedscope_json(trees: Sequence[CallTree], name: str) -> bytes:
    """Write trees of calls; ``name`` is what a viewer calls the whole."""
    frames = _shared_frames(trees)
    numbers = {key: number for number, key in enumerate(frames)}
    document = {
        "$schema": _SCHEMA,
        "exporter": f"gapless {version()}",
        "name": clean(name),
        "activeProfileIndex": 0,
        "shared": {"frames": list(frames.values())},
        "profiles": [_profile(tree, numbers) for tree in trees],
    }
    return msgspec.json.encode(document)


def _shared_frames(trees: Sequence[CallTree]) -> dict[_FrameKey, dict[str, Any]]:
    """Return each function once, with the line where it spent most in any one place."""
    frames: dict[_FrameKey, dict[str, Any]] = {_RARE: {"name": _RARE[0]}}
    longest_ns: dict[_FrameKey, int] = {}
    for tree in trees:
        for node, total_ns in zip(tree.nodes, tree.total_ns, strict=True):
            key = _frame_key(node)
            if total_ns > longest_ns.get(key, -1):
                longest_ns[key] = total_ns
                place = {"file": key[1], "line": node.line} if node.line else {}
                frames[key] = {"name": key[0], **place}
    return frames


def _frame_key(node: CallNode) -> _FrameKey:
    return call_name(node), clean(node.file)


def _profile(tree: CallTree, numbers: Mapping[_FrameKey, int]) -> dict[str, Any]:
    chains = list(tree.chains())
    samples = [[numbers[_frame_key(call)] for call in chain] for chain, _ in chains]
    weights = [node.own_ns for _, node in chains]
    if tree.rare_ns:
        samples.append([numbers[_RARE]])
        weights.append(tree.rare_ns)
    return {
        "type": "sampled",
        "name": clean(tree.title),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
