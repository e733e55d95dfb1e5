"""From a case of several ranks to a training that can be stepped."""

from argparse import Namespace
from typing import Any

import torch

from tests.jobs.training import USUAL, make_job
from tests.zoo.case import Case
from tests.zoo.job import Job


def make(case: Case, device: str, variant: str | None = None) -> Job:
    """Build model and data of a case, or of a variant of it, on a device."""
    options: dict[str, Any] = {**USUAL, **case.options}
    if variant is not None:
        options |= case.variant(variant)
    unknown = set(options) - set(USUAL)
    if unknown:
        raise ValueError(f"there is no option {', '.join(sorted(unknown))}")
    return make_job(Namespace(**options), torch.device(device))
