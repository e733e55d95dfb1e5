"""Seed all generators alike in all arms of a trial, before the user's own seeding, which rules.

Each is seeded as soon as it is imported. Of several ranks each has a seed of its own, as it would.
"""

from __future__ import annotations

import os
from typing import Any

from .. import imports

_NUMPY = 1 << 32  # it takes no larger seed


def begin(plan: dict[str, Any]) -> None:
    """Wait for the generators."""
    rank = os.environ.get("RANK", "")
    seed = int(plan.get("seed") or 0) + (int(rank) if rank.isdecimal() else 0)
    imports.when_imported("random", lambda module: module.seed(seed))
    imports.when_imported("numpy.random", lambda module: module.seed(seed % _NUMPY))
    imports.when_imported("torch", lambda module: module.manual_seed(seed))
