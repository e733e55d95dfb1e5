"""Edits are applied before the training imports anything: none of them may import torch."""

import subprocess
import sys

_APPLY = """
import pkgutil, sys
from gapless.payload.overlay import apply_edit, wraps
options = {"what": "logging", "every": 2, "ns": 1, "folder": ".", "backend": "math"}
options |= {"threads": 1, "place": "read", "path": "."}
applied = 0
for module in pkgutil.iter_modules(wraps.__path__):
    part = module.name.replace("_", "-")
    edit = {"kind": "wrap", "target": "torch.utils.data.DataLoader", "part": part}
    apply_edit(0, {**edit, "options": options, "where": None})
    assert "torch" not in sys.modules, part
    applied += 1
print(applied)
"""


def test_no_edit_imports_torch() -> None:
    process = subprocess.run(
        [sys.executable, "-c", _APPLY], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 20
