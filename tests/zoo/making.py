"""From a case to a training that can be stepped."""

from argparse import Namespace
from importlib import import_module
from typing import Any

import torch

from tests.zoo.cases import Case
from tests.zoo.job import Job


def make(case: Case, device: str, variant: str | None = None) -> Job:
    """Build model and data of a case, or of a variant of it, on a device."""
    family = import_module(f"tests.zoo.families.{case.family}")
    options: dict[str, Any] = {**family.USUAL, **family.SIZES[case.size], **case.options}
    if variant is not None:
        options |= case.variant(variant)
    unknown = set(options) - set(family.USUAL) - set(family.SIZES[case.size])
    if unknown:
        raise ValueError(f"{case.family} has no option {', '.join(sorted(unknown))}")
    return family.make(Namespace(**options), torch.device(device))
