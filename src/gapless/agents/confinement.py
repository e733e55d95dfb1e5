"""Which paths tools may read: those below the given roots, wherever links lead."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.errors import UsageError
from gapless.store.run import manifest, runs

_MAX_PATH: Final = 4096  # characters


class Confinement(Struct, frozen=True):
    """Roots, as they are behind all links."""

    roots: tuple[Path, ...]

    def resolve(self, text: str) -> Path:
        """Return a path that is there, behind all links; a relative one begins at the first root.

        Raises ``UsageError`` for one that is outside, without saying whether it is there.
        """
        refusal = f"{text[:200]!r} is not below {self._roots_text()}, or not there"
        if not text or len(text) > _MAX_PATH or "\0" in text:
            raise UsageError(refusal)
        try:
            path = (self.roots[0] / text).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise UsageError(refusal) from None
        if not self.holds(path):
            raise UsageError(refusal)
        return path

    def holds(self, path: Path) -> bool:
        """Return whether a path, behind all links, is below a root."""
        real_path = (self.roots[0] / path).resolve()
        return any(real_path.is_relative_to(root) for root in self.roots)

    def resolve_whole(self, text: str) -> Path:
        """Return a path that is there, as ``resolve`` does, if no link below it leads outside.

        Raises ``UsageError`` otherwise: a command reads all that is in a folder.
        """
        path = self.resolve(text)
        for folder, folders, files in os.walk(path):
            for entry in map(Path(folder).joinpath, (*folders, *files)):
                if entry.is_symlink() and not self.holds(entry):
                    raise UsageError(f"a link in {text[:200]!r} leads out of {self._roots_text()}")
        return path

    def find_run(self, name: str, folder: str | None) -> Path:
        """Return the folder of a run: by a path, or by name in a folder of runs.

        Raises ``GaplessError``.
        """
        if "/" in name or name.startswith("."):
            run = self.resolve_whole(name)
            if not runs.is_run(run):
                raise UsageError(f"{name[:200]!r} is not the folder of a run")
            return run
        home = self.resolve(folder or str(runs.HOME))
        return self.resolve_whole(str(runs.find_here(home, name)))

    def check_source(self, run: Path) -> None:
        """Raise ``UsageError`` if the working folder that a run names is not below a root."""
        self.check_paths([str(run.parent)])  # where arms and patches are kept
        folder = manifest.read(run).manifest.folder
        if not folder or not self.holds(Path(folder)):
            raise UsageError(
                f"the run was made in {folder or 'an unknown folder'}, which is not below "
                f"{self._roots_text()}; start gapless mcp with --root FOLDER if that is meant"
            )

    def check_paths(self, paths: Iterable[str]) -> None:
        """Raise ``UsageError`` if any of some paths is not below a root."""
        for path in paths:
            if not self.holds(Path(path)):
                raise UsageError(
                    f"{path} is not below {self._roots_text()}: nothing is shown of it"
                )

    def _roots_text(self) -> str:
        return " or ".join(map(str, self.roots))


def confine(roots: Iterable[Path]) -> Confinement:
    """Return the confinement to some folders. Raises ``UsageError`` for one that is not there."""
    resolved_roots: list[Path] = []
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"--root {root}: there is no such folder")
        resolved_roots.append(root.resolve())
    return Confinement(tuple(resolved_roots))
