"""Files of the kernel, below a root: that of the machine, or a drawn one in tests."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct


class HostFiles(Struct, frozen=True):
    """What ``/proc`` and ``/sys`` say; ``None`` where there is no such file, or none to read."""

    root: Path = Path("/")

    def text(self, name: str) -> str | None:
        """Return what a file holds, without space around it; names are relative to the root."""
        with suppress(OSError):
            return (self.root / name).read_text(encoding="utf-8", errors="replace").strip()
        return None

    def number(self, name: str) -> int | None:
        """Return the whole number that a file holds; ``None`` for anything else ("max")."""
        text = self.text(name)
        return int(text) if text is not None and text.lstrip("-").isdecimal() else None

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, in order; nothing where it cannot be listed."""
        with suppress(OSError):
            return tuple(sorted(path.name for path in (self.root / folder).iterdir()))
        return ()

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        with suppress(OSError):
            return (self.root / name).exists()
        return False

    def fields(self, name: str) -> dict[str, int]:
        """Return the counts of a file of lines such as "MemTotal:  24684096 kB" or "nr_periods 3".

        kB are returned as bytes.
        """
        counts: dict[str, int] = {}
        for line in (self.text(name) or "").splitlines():
            words = line.replace(":", " ").split()
            if len(words) > 1 and words[1].isdecimal():
                is_kib = len(words) > 2 and words[2] == "kB"  # noqa: PLR2004 - name, count, unit
                counts[words[0]] = int(words[1]) << (10 if is_kib else 0)
        return counts

    def group_files(self, controller: str, name: str, old_name: str) -> Iterator[str]:
        """Yield the names of a control group's file, of our own group and of those above it.

        ``old_name``: in version 1. A container may see its own group as the root: so the root of
        the mount is looked at as well, whatever our group is called outside.
        """
        folders: list[tuple[str, str]] = [("sys/fs/cgroup", name)]
        for line in (self.text("proc/self/cgroup") or "").splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if not controllers:
                folders += [(f"sys/fs/cgroup{prefix}", name) for prefix in _prefixes(path)]
            elif controller in controllers.split(","):
                mounts = {controllers, controller}
                folders += [
                    (f"sys/fs/cgroup/{mount}{prefix}", old_name)
                    for mount in sorted(mounts)
                    for prefix in ("", *_prefixes(path))
                ]
        yield from dict.fromkeys(f"{folder}/{file}" for folder, file in folders)


def _prefixes(path: str) -> list[str]:
    """Return the paths of a group and of all above it but the root: /a/b → /a, /a/b."""
    parts = [part for part in path.split("/") if part]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def parse_numbers(text: str | None) -> frozenset[int]:
    """Return the numbers of a list as the kernel writes them: "0-3,8"."""
    numbers = set[int]()
    for piece in (text or "").replace("\n", ",").split(","):
        first, _, end = piece.strip().partition("-")
        if first.isdecimal():
            numbers.update(range(int(first), int(end or first) + 1))
    return frozenset(numbers)
