"""A checkup as JSON: an interface that scripts rely on. Keys are added, never renamed."""

import json
from typing import Any, Final

from gapless.model.checkup import Checkup
from gapless.model.version import version

SCHEMA: Final = 1


def checkup_json(checkup: Checkup) -> str:
    """Return a checkup as one JSON object: each check with verdict, evidence, remedy."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "gapless": version(),
        "python": checkup.python,
        "took_s": round(checkup.took_s, 3),
        "notes": checkup.notes,
        "checks": [
            {
                "name": result.name,
                "verdict": result.verdict.value,
                "evidence": result.evidence,
                "remedy": result.remedy,
            }
            for result in checkup.results
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
