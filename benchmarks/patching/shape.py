"""A source shape: a small training as somebody writes it, a fix, and what must become of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gapless.model.edit import Applicability, Edit, Location, SetArgument, Wrap
from gapless.model.tuning import ProvenFix

LOADER: Final = "torch.utils.data.DataLoader"
SCRIPT: Final = "train.py"
_IMPORTS: Final = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
_DATA: Final = "ds = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))\n"
_MODEL: Final = "model = torch.nn.Linear(4, 1)\n"
_OPTIMIZER: Final = "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
_LOOP: Final = """
for x, y in loader:
    opt.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    opt.step()
"""


@dataclass(frozen=True)
class Shape:
    """Files of a training, the edits of a fix, and the words of the reason if it is refused.

    ``at``: text in the line that the edits are about; it is looked for in ``file``.
    """

    name: str
    files: Mapping[str, str]
    edits: tuple[Edit, ...]
    at: str | None = None
    file: str = SCRIPT
    refused: str | None = None  # a part of the reason
    coding: str = "utf-8"
    same: bool = False  # nothing is to be changed

    def sources(self, folder: Path) -> dict[Path, bytes]:
        """Return the files as bytes, in a folder."""
        return {folder / name: text.encode(self.coding) for name, text in self.files.items()}

    def fix(self, folder: Path) -> ProvenFix:
        """Return the fix, for files in a folder."""
        where = self._locate(folder)
        edits = tuple(
            msgspec.structs.replace(edit, where=where)
            if where is not None and isinstance(edit, (SetArgument, Wrap))
            else edit
            for edit in self.edits
        )
        return ProvenFix("fix", self.name, edits, Applicability.IDENTICAL, location=where)

    def _locate(self, folder: Path) -> Location | None:
        if self.at is None:
            return None
        if self.file not in self.files:
            return Location(self.file, 1)
        before, _, _ = self.files[self.file].partition(self.at)
        return Location(str(folder / self.file), before.count("\n") + 1)


def train(
    loader: str = "loader = DataLoader(ds, batch_size=4)\n",
    *,
    imports: str = _IMPORTS,
    model: str = _MODEL,
    optimizer: str = _OPTIMIZER,
    loop: str = _LOOP,
) -> str:
    """Return a training of eight steps, with parts of it written in another way."""
    return imports + "\n" + _DATA + model + optimizer + loader + loop


def set_loader(name: str, value: "bool | int | None") -> tuple[Edit, ...]:
    """Return the edit of a loader's argument."""
    return (SetArgument(LOADER, name, value),)


WORKERS: Final = set_loader("num_workers", 1)
