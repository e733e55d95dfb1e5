"""The user’s files while fixes are written into them, one after another."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.apply.code.source import SourceFile, Splice, UnwritableError, read_source
from gapless.model.edit import Location


class Project(Struct, frozen=True):
    """Files as they stand, why others cannot be changed, and files that are created."""

    script: Path | None
    sources: Mapping[Path, SourceFile]
    unreadable: Mapping[Path, str]
    created: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])

    def source_at(self, location: Location) -> SourceFile:
        """Return the file of a location. Raises ``UnwritableError`` if it is none of the user's."""
        return self.source(self._find_path(location.file))

    def source(self, path: Path) -> SourceFile:
        """Return a file. Raises ``UnwritableError`` if it cannot be changed."""
        if path in self.unreadable:
            raise UnwritableError(self.unreadable[path])
        if path not in self.sources:
            raise UnwritableError(_name_stranger(str(path)))
        return self.sources[path]

    def script_source(self) -> SourceFile:
        """Return the script. Raises ``UnwritableError`` if there is none that can be changed."""
        if self.script is None:
            raise UnwritableError("the command has no script that could be changed")
        return self.source(self.script)

    def splice(self, source: SourceFile, splices: Iterable[Splice]) -> "Project":
        """Return the project with a file changed."""
        changes = tuple(splices)
        if not changes:
            return self
        return replace(self, sources={**self.sources, source.path: source.splice(changes)})

    def find_module(self, name: str) -> SourceFile | None:
        """Return the file that a module's name may mean: the one whose path ends with it."""
        parts = tuple(name.split("."))
        matches = [
            source
            for source in self.sources.values()
            if _module_parts(source.path)[-len(parts) :] == parts and _is_parsed(source)
        ]
        return matches[0] if len(matches) == 1 else None

    def readable(self, word: str = "") -> tuple[SourceFile, ...]:
        """Return the files that have a word in them, and can be parsed."""
        return tuple(
            source for source in self.sources.values() if word in source.text and _is_parsed(source)
        )

    def sources_of(self, target: str, where: Location | None) -> tuple[SourceFile, ...]:
        """Return the files that may use a target: that of a location, or all that name it."""
        if where is None:
            return self.readable(target.rpartition(".")[2])
        return (self.source_at(where),)

    def _find_path(self, file: str) -> Path:
        path = Path(file)
        known_paths = [*self.sources, *self.unreadable]
        if path in known_paths:
            return path
        parts = PurePath(file).parts
        ends = [
            known_path for known_path in known_paths if known_path.parts[-len(parts) :] == parts
        ]
        if len(ends) != 1:
            raise UnwritableError(_name_stranger(file))
        return ends[0]


def open_project(sources: Mapping[Path, bytes], script: Path | None) -> Project:
    """Return the user's files, read."""
    readable, unreadable = dict[Path, SourceFile](), dict[Path, str]()
    for path, data in sources.items():
        try:
            readable[path] = read_source(path, data)
        except UnwritableError as error:
            unreadable[path] = str(error)
    return Project(script, readable, unreadable)


def _is_parsed(source: SourceFile) -> bool:
    try:
        _ = source.tree
    except UnwritableError:
        return False
    return True


def _module_parts(path: Path) -> tuple[str, ...]:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _name_stranger(file: str) -> str:
    if file.startswith("<"):
        return f"the code is {file}, which is made while the training runs"
    if file.endswith(".ipynb"):
        return f"{PurePath(file).name} is a notebook"
    return f"{PurePath(file).name} is not one of your files"
