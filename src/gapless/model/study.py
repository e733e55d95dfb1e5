"""The study: what is known of one capture (one rank or many), ready to render."""

from typing import Final

from msgspec import Struct

from gapless.model.account import Account, RowAccount
from gapless.model.edit import Proposal
from gapless.model.finding import Diagnosis
from gapless.model.ledger import Row
from gapless.model.notebook import study_html
from gapless.model.picture import Forecast, Picture
from gapless.model.run import RecordedRun
from gapless.model.tables import Tables
from gapless.model.trace import Count
from gapless.model.trial import Trial
from gapless.model.work import RankWork, Work

FILES: Final = "file."  # what names of sites of files begin with: "file.write"
IN_LOADING: Final = "in next(loader)"  # the name of sites that made a batch in the training thread
# The names of sites of operators that a function calls itself: those that make a graph, its nodes.
GRAPH_MADE, GRAPH_PASSED = "its operators with a graph", "their backward pass"
# The prefix of sites that call an operator themselves, without a graph; their time is the device's.
ON_DEVICE: Final = "on the device: "
LOOPED: Final = "in a loop: "  # the prefix of sites that hold loops over an operator
UNUSED: Final = "forward passes that nothing uses"  # of sites, and of a row of the operators
UNUSED_FIRST: Final = f"{UNUSED}: called first"  # of sites: what is called, before what is used …
UNUSED_LATER: Final = f"{UNUSED}: called later"  # … or behind it
UPDATES: Final = "gradients stored for each optimizer's step"  # of a row of the operators
EVALUATES: Final = "torch.nn.Module.eval"  # likewise, of those that set a model to evaluate


class RunInfo(Struct, frozen=True):
    """Where the capture comes from; ``None`` where a foreign trace does not say."""

    paths: tuple[str, ...]
    ranks: tuple[int, ...]
    world: int | None
    device: str | None
    versions: tuple[tuple[str, str], ...]
    capability: tuple[int, int] | None = None  # of that device


class StudyHealth(Struct, frozen=True):
    """How far the numbers can be trusted: the readers' health, what partitioning left open."""

    source: str
    events: int
    dropped: int
    repaired: int
    truncated: bool
    resolution_ns: int
    launches_recorded: float | None
    clock_error_ns: int
    details: tuple[Count, ...]  # each kind of drop, repair and partition note, with its count
    notes: tuple[str, ...]  # sentences for the reader of the report


class Steps(Struct, frozen=True):
    """Step times over the counted rows."""

    count: int
    left_out: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    rule: str
    slowest: tuple[RowAccount, ...]  # longest first
    typical: RowAccount | None  # of (lower) median length: what the slowest are compared with


class Piece(Struct, frozen=True):
    """One piece of the ledger and what stands behind it; ``None`` where nothing is known."""

    row: Row
    offset_ns: int  # of its start, from the start of its row
    ns: int
    leaf: str
    under: str | None  # what the host was at; what a refill would have been called
    refill: str | None  # the sync whose debt it pays
    culprit: str | None  # the event to blame
    category: str | None  # of the culprit
    thread: str | None  # of the culprit
    operator: str | None  # the innermost operator around it
    line: str | None  # the innermost Python function around it


class Leaf(Struct, frozen=True):
    """The pieces of one leaf (or of all below a prefix): how many, how long, the longest."""

    prefix: str
    count: int
    ns: int
    median_ns: int | None
    longest: tuple[Piece, ...]


class Site(Struct, frozen=True):
    """A function of the user's, and what it caused of one leaf or by one kind of call.

    From stacks of windows, which name a function by the line where it begins.
    """

    name: str  # a leaf ("idle.sync.return"), an operator or a call ("aten::item"), IN_LOADING
    file: str
    line: int
    function: str
    ns: int  # of the ledger for a leaf, of the host for a call
    calls: int


class Straggler(Struct, frozen=True):
    """A rank that others waited for in collectives."""

    rank: int
    ns: int  # device time of the others, together
    waits: int  # pieces of the ledger


class Study(Struct, frozen=True):
    """An account, the steps behind it, the tables that users know, and the health of it all."""

    run: RunInfo
    health: StudyHealth
    steps: Steps | None
    account: Account
    tables: Tables
    leaf: Leaf | None = None  # where one was asked for
    stragglers: tuple[Straggler, ...] = ()
    # What devices still had to do when the training thread began to wait for data (where it never
    # did: when a step ended), median; None without devices.
    backlog_ns: int | None = None
    recorded: RecordedRun | None = None  # of a run that gapless recorded
    proposals: tuple[Proposal, ...] = ()
    trials: tuple[Trial, ...] = ()
    diagnosis: Diagnosis | None = None  # None: not asked for
    work: tuple[Work, ...] = ()  # of the windows; most time first
    rank_work: tuple[RankWork, ...] = ()  # likewise, of each rank; none of a run of one
    sites: tuple[Site, ...] = ()  # most time first; none without stacks
    picture: Picture | None = None  # where it was asked for (``Options.pictured``), and …
    leaves: tuple[Leaf, ...] = ()  # … every leaf with its longest pieces
    forecast: Forecast | None = None  # likewise: a step with the first proposal

    def _repr_html_(self) -> str:
        """Show the account and the findings in a notebook."""
        return study_html(self)
