"""The weights to export: those of a file, or those that the training saved last."""

from __future__ import annotations

import sys
from typing import Any

_PREFIXES = "module.", "_orig_mod.", "model."
_MAX_NAMES = 3


class WeightsError(Exception):
    """Weights that do not fit the model; the message says why."""


def load_file(module: Any, path: str) -> None:
    """Load the weights of a checkpoint into a model. Raises ``WeightsError``."""
    try:
        states = _list_states(_read(path))
    except WeightsError:
        raise
    except Exception as error:
        raise WeightsError(
            f"{path} cannot be read: {type(error).__name__}: {error}"[:300]
        ) from None
    names = set(module.state_dict())
    candidates = [_strip(state, names) for state in states]
    if not candidates:
        raise WeightsError(f"{path} holds no dictionary of tensors")
    best = max(candidates, key=lambda state: len(names & set(state)))
    lacking, foreign = sorted(names - set(best)), sorted(set(best) - names)
    if lacking:
        examples = ", ".join(lacking[:_MAX_NAMES])
        raise WeightsError(
            f"{path} lacks {len(lacking)} of the model's {len(names)} weights: {examples}"
        )
    try:
        module.load_state_dict({name: best[name] for name in best if name not in set(foreign)})
    except Exception as error:
        raise WeightsError(f"{path} does not fit: {error}"[:300]) from None


def _read(path: str) -> Any:
    """Read a checkpoint, by a reader that runs no code of it."""
    if path.endswith(".safetensors"):
        import importlib

        return importlib.import_module("safetensors.torch").load_file(path)
    torch = sys.modules["torch"]
    if not hasattr(getattr(torch, "compiler", None), "set_stance"):  # before 2.6
        raise WeightsError(
            f"torch {torch.__version__} may run code of a checkpoint (CVE-2025-32434); torch 2.6 "
            "does not, and neither does a file of .safetensors"
        )
    return torch.load(path, map_location="cpu", weights_only=True)


def _list_states(content: Any) -> list[dict[str, Any]]:
    """Return the dictionaries of tensors in a checkpoint, at any depth."""
    if not isinstance(content, dict):
        return []
    tensor = sys.modules["torch"].Tensor
    states = [content] if any(isinstance(value, tensor) for value in content.values()) else []
    for value in content.values():
        states += _list_states(value)
    return [
        {name: value for name, value in state.items() if isinstance(name, str)} for state in states
    ]


def _strip(state: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Leave out what shells of a model put before its names (DDP, compiled, Lightning)."""
    best = state
    for _ in _PREFIXES:
        if names <= set(best):
            break
        for prefix in _PREFIXES:
            if best and sum(name.startswith(prefix) for name in best) * 2 > len(best):
                best = {name.removeprefix(prefix): value for name, value in best.items()}
                break
    return best


def copy_state(module: Any) -> dict[str, Any]:
    """Return a copy of a model's weights on the CPU."""
    return {
        name: value.detach().cpu().clone()
        for name, value in module.state_dict().items()
        if isinstance(value, sys.modules["torch"].Tensor)
    }
