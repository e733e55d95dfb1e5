"""Calls of a program as a tree, as a sampler saw them: of each chain of calls, its time."""

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct


class CallNode(Struct, frozen=True):
    """A function as it was called from where its parent stands."""

    parent: int  # the number of its parent; −1: it is outermost. Parents come first
    file: str
    function: str
    line: int  # where in it most of the time passed; 0: it has no line
    package: str | None  # of a library, or of the standard one; None: the user's own
    own_ns: int  # what it spent itself
    own_looks: int


class CallTree(Struct, frozen=True, dict=True):
    """What one thread was in, from the outside in; of workers, all of them together."""

    title: str  # "main thread", "main thread of rank 3", "4 workers"
    nodes: tuple[CallNode, ...]
    life_ns: int  # of the process, from its start to its end; of workers, the sum
    rare_ns: int  # in stacks that were not kept one by one: they are in no node
    rare_looks: int
    setup_ns: int  # of what was sampled: before the process stepped or loaded

    @cached_property
    def total_ns(self) -> tuple[int, ...]:
        """Return the time of each node, with all that it calls."""
        totals = [node.own_ns for node in self.nodes]
        for number in range(len(totals) - 1, -1, -1):
            parent = self.nodes[number].parent
            if parent >= 0:
                totals[parent] += totals[number]
        return tuple(totals)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of what each node calls, the longest first."""
        called: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            if node.parent >= 0:
                called[node.parent].append(number)
        return tuple(
            tuple(sorted(numbers, key=lambda number: -self.total_ns[number])) for numbers in called
        )

    @property
    def roots(self) -> tuple[int, ...]:
        """Return the outermost nodes, the longest first."""
        outermost = [number for number, node in enumerate(self.nodes) if node.parent < 0]
        return tuple(sorted(outermost, key=lambda number: -self.total_ns[number]))

    @property
    def seen_ns(self) -> int:
        """Return the time that all looks stand for."""
        return sum(node.own_ns for node in self.nodes) + self.rare_ns

    @property
    def looks(self) -> int:
        """Return how often it was looked."""
        return sum(node.own_looks for node in self.nodes) + self.rare_looks

    def chains(self) -> Iterator[tuple[tuple[CallNode, ...], CallNode]]:
        """Yield each node that spent time itself, with the chain of calls that ends in it.

        In the order of the tree, of what one calls the longest first.
        """
        waiting: list[tuple[int, tuple[CallNode, ...]]] = [
            (number, ()) for number in reversed(self.roots)
        ]
        while waiting:
            number, outer = waiting.pop()
            chain = (*outer, self.nodes[number])
            if self.nodes[number].own_ns or self.nodes[number].own_looks:
                yield chain, self.nodes[number]
            waiting += [(called, chain) for called in reversed(self.children[number])]
