"""The golden vectors of the account's definition, worked out by hand.

"a-b leaf" in a comment is a half-open interval. Times of G1 to G6 are in ns, of the others in µs.
"""

from collections.abc import Mapping

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.accounting import partition, sum_ledgers
from gapless.model.account import Account
from gapless.model.leaf import LEAVES
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, Kind, culprit_names, draw

PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def us(time_us: float) -> int:
    return round(time_us * US)


LaunchCall = tuple[float, float] | tuple[float, float, str] | None


def kernel(
    name: str,
    start: float,
    end: float,
    call: LaunchCall,
    kind: Kind = "compute",
    *,
    scale: int = US,
) -> Act:
    def ns(time: float) -> int:
        return round(time * scale)

    launch = None
    if call is not None:
        launch = Call(ns(call[0]), ns(call[1]), call[2] if len(call) == 3 else "m")
    return Act(name, ns(start), ns(end), launch, kind)


def act(name: str, start: float, end: float, call: LaunchCall, kind: Kind = "compute") -> Act:
    return kernel(name, start, end, call, kind, scale=1)


def frame(tag: str, start: float, end: float, thread: str = "m", name: str = "") -> Frame:
    return Frame(tag, us(start), us(end), thread, name)


class Golden(Struct, frozen=True):
    drawing: Drawing
    windows: tuple[Mapping[str, float], ...]  # leaf → time, of each window
    scale: int = US
    culprits: Mapping[str, set[str]] = field(default_factory=dict[str, set[str]])
    refill: Mapping[str, float] | None = None  # pieces that pay a sync's debt
    groups: Mapping[str, float] | None = None
    bounds: tuple[float, ...] = ()


GOLDEN: dict[str, Golden] = {}

# K1 waits for L1 100-106: 0-90 python, 90-100 dispatch (op open), 100-106 api, 106-110 latency.
# K2 waits for L2 300-306: the call ends after a = 160, so 160-290 python, 290-300 dispatch, …
GOLDEN["G1 launch-bound"] = Golden(
    Drawing(
        [act("K1", 110, 160, (100, 106)), act("K2", 310, 350, (300, 306))],
        [Frame("op", 90, 108), Frame("op", 290, 308)],
        [0, 350],
    ),
    (
        {
            "busy": 90,
            "idle.host.python": 220,
            "idle.host.dispatch": 20,
            "idle.launch.api": 12,
            "idle.launch.latency": 8,
        },
    ),
    scale=1,
)

# The sync 20-1005 covers K1 in 20-1000: debt 980. 1000-1005 return, which does not pay; then
# 1005-1300 python, 1300-1306 api, 1306-1310 latency all pay: refill 305.
_TWO_KERNELS = [act("K1", 10, 1000, (0, 6)), act("K2", 1310, 1400, (1300, 1306))]
GOLDEN["G2 long sync"] = Golden(
    Drawing(_TWO_KERNELS, [Frame("sync", 20, 1005)], [0, 1400]),
    (
        {
            "busy": 1080,
            "idle.launch.api": 6,
            "idle.launch.latency": 4,
            "idle.sync.return": 5,
            "idle.sync.refill": 305,
        },
    ),
    scale=1,
    culprits={"idle.sync.refill": {"sync@20"}, "idle.sync.return": {"sync@20"}},
)

# The same, but the sync 900-1005 covers only 100: refill 1005-1105, the rest keeps its cause.
GOLDEN["G3 short sync"] = Golden(
    Drawing(_TWO_KERNELS, [Frame("sync", 900, 1005)], [0, 1400]),
    (
        {
            "busy": 1080,
            "idle.launch.api": 12,
            "idle.launch.latency": 8,
            "idle.sync.return": 5,
            "idle.sync.refill": 100,
            "idle.host.python": 195,
        },
    ),
    scale=1,
)

# Ask 1000, got 2000; the worker: read 200-1200, decode -1700, collate -1900. 2000-2002 python. The
# frame aten::to 2002-2050 encloses the launch of an HtoD copy: 2002-2005 h2d.host. The call
# 2005-2030 is too short to block: 2005-2020 api, made under h2d.host, so its group is copy.
GOLDEN["G4 worker data"] = Golden(
    Drawing(
        [
            replace(act("K1", 2020, 2100, (2005, 2030), "h2d"), name=PAGEABLE),
            act("K2", 2100, 2500, (2040, 2046)),
        ],
        [
            Frame(
                "data",
                1000,
                2000,
                stages=((200, 1200, "read"), (1200, 1700, "decode"), (1700, 1900, "collate")),
            ),
            Frame("to", 2002, 2050),
        ],
        [1000, 2500],
    ),
    (
        {
            "idle.data.read": 200,
            "idle.data.decode": 500,
            "idle.data.collate": 200,
            "idle.data.hand-over": 100,
            "idle.host.python": 2,
            "idle.h2d.host": 3,
            "idle.launch.api": 15,
            "copy.h2d.pageable": 80,
            "busy": 400,
        },
    ),
    scale=1,
    groups={"data": 1000, "host": 2, "copy": 98, "compute": 400},
    culprits={
        "idle.data.read": {"data@1000:read"},
        "idle.data.hand-over": {"data@1000"},
        "copy.h2d.pageable": {"K1"},
    },
)

# Compute 10-500 hides NCCL 300-500; the last rank arrives at 700.
GOLDEN["G5 overlap, straggler"] = Golden(
    Drawing(
        [
            act("K1", 10, 500, (0, 6)),
            replace(act("K2", 300, 900, (7, 12), "comm"), stream=20, last_rank=700),
            act("K3", 900, 1000, (13, 18)),
        ],
        steps=[0, 1000],
    ),
    (
        {
            "idle.launch.api": 6,
            "idle.launch.latency": 4,
            "busy": 590,
            "comm.straggler_wait": 200,
            "comm.exposed": 200,
        },
    ),
    scale=1,
)

# K1 by b, which has no event before 550, so φ(main): 0-50 dispatch, 50-100 python, 100-300 gc,
# 300-550 python; b: 550-580 dispatch, -590 api, -600 latency. K2 by b: main has no boundary in b's
# gap 595-890: 700-890 engine; -900 dispatch, -905 api, -945 alloc (keeps its name), -950 api, …
GOLDEN["G6 two threads, gc, alloc"] = Golden(
    Drawing(
        [act("K1", 600, 700, (580, 590, "b")), act("K2", 960, 1000, (900, 950, "b"))],
        [
            Frame("gc", 100, 300),
            Frame("op", 0, 50),
            Frame("op", 550, 595, "b"),
            Frame("op", 890, 955, "b"),
            Frame("alloc", 905, 945, "b"),
        ],
        [0, 1000],
    ),
    (
        {
            "busy": 140,
            "idle.host.dispatch": 90,
            "idle.host.python": 300,
            "idle.gc": 200,
            "idle.host.engine": 190,
            "idle.alloc.retry": 0,
            "idle.alloc": 40,
            "idle.launch.api": 20,
            "idle.launch.latency": 20,
        },
    ),
    scale=1,
)

# The sync 10-51 covers K0 in 10-50: debt 40. 50-51 return; 51-60 pay 9. K2: its call ended at 65,
# before 160, gap 1.5: device.gap. K3: call ended at 72, 60 > 20: wait. K4: 300-305 api pays 5, then
# 145 > 100 after the call: wait. Gap and waits pay nothing: refill 14.
GOLDEN["G7 device gap, device wait"] = Golden(
    Drawing(
        [
            kernel("K0", 8, 50, (0, 6)),
            kernel("K1", 60, 160, (52, 58)),
            kernel("K2", 161.5, 200, (59, 65)),
            kernel("K3", 260, 300, (66, 72)),
            kernel("K4", 450, 500, (299, 305)),
        ],
        [frame("sync", 10, 51)],
        [0, us(500)],
    ),
    (
        {
            "busy": 270.5,
            "idle.launch.api": 6,
            "idle.launch.latency": 2,
            "idle.sync.return": 1,
            "idle.sync.refill": 14,
            "idle.device.gap": 1.5,
            "idle.device.wait": 205,
        },
    ),
    culprits={"idle.device.gap": {"K2"}, "idle.device.wait": {"K3", "K4"}},
    groups={"compute": 272, "host": 8, "sync": 15, "unknown": 205},
)

# The sync 300-515 covers 210. 510-515 return; 515-518 a worker's batch: unstaged, pays nothing;
# 518-520 python: refill 2; 520-900 data.main, of which the first 208 carry the facet.
GOLDEN["G8 debt and data in the process"] = Golden(
    Drawing(
        [kernel("K1", 10, 510, (0, 6)), kernel("K2", 920, 1000, (910, 916))],
        [frame("sync", 300, 515), frame("data", 515, 518), frame("data0", 520, 900)],
        [0, us(1000)],
    ),
    (
        {
            "busy": 580,
            "idle.sync.return": 5,
            "idle.data.unstaged": 3,
            "idle.sync.refill": 2,
            "idle.data.main": 380,
            "idle.host.python": 10,
            "idle.launch.api": 12,
            "idle.launch.latency": 8,
        },
    ),
    refill={"idle.sync.refill": 2, "idle.data.main": 208},
)

# A 20-505 covers 480; B 508-514 covers only the tiny kernel: the debt grows by 1, it does not
# become 1. 800 is the first boundary after both syncs, 900 the second: what is left is dropped.
GOLDEN["G9 two syncs, expiry"] = Golden(
    Drawing(
        [
            kernel("K1", 10, 500, (0, 6)),
            kernel("tiny", 509, 510, (505, 507)),
            kernel("K2", 710, 800, (700, 706)),
            kernel("K3", 860, 890, (850, 856)),
            kernel("K4", 960, 1000, (950, 956)),
        ],
        [frame("sync", 20, 505, name="A"), frame("sync", 508, 514, name="B")],
        [0, us(800), us(900), us(1000)],
    ),
    (
        {
            "busy": 581,
            "idle.launch.api": 6,
            "idle.launch.latency": 4,
            "idle.sync.return": 9,
            "idle.sync.refill": 200,
        },
        {"busy": 30, "idle.sync.refill": 70},
        {"busy": 40, "idle.host.python": 50, "idle.launch.api": 6, "idle.launch.latency": 4},
    ),
    culprits={"idle.sync.refill": {"A"}, "idle.sync.return": {"A", "B"}},
)

# In b's gap 80-100 main has only 84-88, below an evaluate_function frame, which does not count:
# 90-100 engine. In b's gap 120-180 main has 160-170: no burst, φ(main).
GOLDEN["G10 autograd bursts"] = Golden(
    Drawing(
        [
            kernel("K1", 13, 40, (5, 11)),
            kernel("K2", 77, 90, (70, 75, "b")),
            kernel("K3", 117, 150, (110, 115, "b")),
            kernel("K4", 197, 220, (190, 195, "b")),
        ],
        [
            frame("op", 0, 20),
            frame("cpu-node", 84, 88),
            frame("op", 85, 87),
            frame("op", 60, 80, "b"),
            frame("op", 100, 120, "b", "next"),
            frame("op", 160, 170),
            frame("op", 180, 200, "b"),
        ],
        [0, us(220)],
    ),
    (
        {
            "busy": 96,
            "idle.host.dispatch": 45,
            "idle.launch.api": 21,
            "idle.launch.latency": 8,
            "idle.host.python": 40,
            "idle.host.engine": 10,
        },
    ),
    culprits={"idle.host.engine": {"next"}},
)

# The call 20-3990 lasts above 40 and ends above 4000 - 25: it blocks. The synchronize in the same
# aten::to is part of the copy and no sync: there is no debt.
GOLDEN["G11 blocking pageable copy"] = Golden(
    Drawing(
        [
            replace(kernel("K1", 190, 4000, (20, 3990), "h2d"), name=PAGEABLE),
            kernel("K2", 4050, 5000, (4040, 4046)),
        ],
        [frame("to", 0, 4020, name="to"), frame("sync", 4002, 4010, name="sync")],
        [0, us(5000)],
    ),
    (
        {
            "idle.h2d.host": 210,
            "copy.h2d.pageable": 3810,
            "idle.host.python": 20,
            "idle.launch.api": 6,
            "idle.launch.latency": 4,
            "busy": 950,
        },
    ),
    culprits={"idle.h2d.host": {"to", f"L@{us(20)}", "sync"}},
    refill={},
)

# S = 0, 105, 205, 300 (the end of the last). K1 was launched before 105 and ends at 130. Main
# starts an op inside the overhead 0-12: it was not held. The overhead 152-172 held it.
GOLDEN["G12 windows, overhead"] = Golden(
    Drawing(
        [
            kernel("K1", 20, 130, (10, 16)),
            kernel("K2", 131, 150, (120, 126)),
            kernel("K3", 230, 280, (220, 226)),
        ],
        [frame("op", 5, 18)],
        [(0, us(100)), (us(105), us(200)), (us(205), us(300))],
        [(0, us(12)), (us(152), us(172))],
    ),
    (
        {
            "busy": 110,
            "idle.host.python": 5,
            "idle.host.dispatch": 5,
            "idle.launch.api": 6,
            "idle.launch.latency": 4,
        },
        {"busy": 19, "idle.device.gap": 1, "idle.host.python": 30, "idle.profiler": 25},
        {"busy": 50, "idle.host.python": 35, "idle.launch.api": 6, "idle.launch.latency": 4},
    ),
    culprits={"idle.profiler": {"step", "overhead"}},
    bounds=(0, 130, 205, 300),
)

# K3 starts 0.5 before its launch: clock error 0.5. K4: a gap of 0.3 < 0.5: unrecorded.
GOLDEN["G13 graph, no record, clock"] = Golden(
    Drawing(
        [
            replace(kernel("KA", 25, 40, (0, 20)), graph="g"),
            replace(kernel("KB", 45, 60, (0, 20)), graph="g"),
            replace(kernel("KC", 60, 80, (0, 20)), graph="g"),
            kernel("U", 100, 120, None),
            kernel("K2", 140, 150, (130, 136)),
            kernel("K3", 155, 165, (155.5, 158)),
            kernel("K4", 165.3, 170, (160, 163)),
        ],
        steps=[0, us(170)],
    ),
    (
        {
            "busy": 94.7,
            "idle.launch.api": 26,
            "idle.launch.latency": 9,
            "idle.graph": 5,
            "idle.unrecorded": 20.3,
            "idle.host.python": 15,
        },
    ),
    culprits={"idle.unrecorded": {"U", "K4"}, "idle.graph": {"KB"}},
)

# A 30-105: stream 7 ran dry at 100, stream 20 runs on and is not bound: debt 70. The sync of
# another thread finds nothing that A has not counted. Inside the free stream 20 runs dry: a sync
# that covers 110-300, debt 190 at 310. 300-310 alloc pays 10 of A's debt, with the facet.
GOLDEN["G14 what a sync covers"] = Golden(
    Drawing(
        [
            kernel("K1", 10, 100, (0, 6)),
            replace(kernel("K2", 20, 300, (7, 12)), stream=20),
            kernel("K3", 710, 800, (700, 706)),
        ],
        [
            frame("sync", 30, 105, name="A"),
            frame("sync", 40, 106, "c"),
            frame("alloc", 110, 310, name="free"),
        ],
        [0, us(800)],
    ),
    (
        {
            "busy": 380,
            "idle.launch.api": 12,
            "idle.launch.latency": 8,
            "idle.alloc": 10,
            "idle.sync.refill": 250,
            "idle.host.python": 140,
        },
    ),
    culprits={"idle.sync.refill": {"A", "free"}},
    refill={"idle.alloc": 10, "idle.sync.refill": 250},
)

# No frame anywhere for more than 5 ms: 100-6010 unframed. 7000-9000 is shorter: python, but for
# 7100-7200, where another thread collects. 10000-11000: b launches in it: python; then b's op.
GOLDEN["G15 unframed gap, gc elsewhere"] = Golden(
    Drawing(
        [
            kernel("K1", 10, 100, (0, 6)),
            kernel("K2", 6020, 7000, (6010, 6016)),
            kernel("K3", 9010, 10000, (9000, 9006)),
            kernel("K4", 15010, 20000, (15000, 15006, "b")),
        ],
        [
            frame("gc", 7100, 7200, "c"),
            frame("op", 11000, 20000, "b"),
            frame("op", 19990, 20000),
        ],
        [0, us(20000)],
    ),
    (
        {
            "busy": 7050,
            "idle.launch.api": 24,
            "idle.launch.latency": 16,
            "idle.host.unframed": 5910,
            "idle.gc": 100,
            "idle.host.python": 2900,
            "idle.host.dispatch": 4000,
        },
    ),
    groups={"compute": 7050, "runtime": 100, "host": 12850},
    culprits={"idle.host.unframed": {""}, "idle.gc": {f"gc@{us(7100)}"}},
)

CASES = [pytest.param(golden, id=name) for name, golden in GOLDEN.items()]


def scale_times(times: Mapping[str, float], scale: int) -> dict[str, int]:
    return {name: round(time * scale) for name, time in times.items() if time}


def by_leaf(totals: Account) -> dict[str, int]:
    ns_by_leaf: dict[str, int] = {}
    for leaf, ns in totals.leaves.items():
        name = "busy" if leaf.startswith("busy") else leaf
        ns_by_leaf[name] = ns_by_leaf.get(name, 0) + ns
    return ns_by_leaf


@pytest.mark.parametrize("golden", CASES)
def test_each_window_sums_to_the_golden_vector(golden: Golden) -> None:
    inputs = draw(golden.drawing)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages)
    leaves = [by_leaf(sum_ledgers([ledger], [[index]])) for index in range(len(ledger.rows))]
    assert leaves == [scale_times(window, golden.scale) for window in golden.windows]
    if golden.bounds:
        edges = [ledger.rows[0].start, *(row.end for row in ledger.rows)]
        assert edges == [round(bound * golden.scale) for bound in golden.bounds]


@pytest.mark.parametrize("golden", CASES)
def test_each_leaf_blames_what_the_golden_vector_blames(golden: Golden) -> None:
    inputs = draw(golden.drawing)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages)
    actual = {leaf: culprit_names(ledger, leaf, inputs.event_names) for leaf in golden.culprits}
    assert actual == golden.culprits


@pytest.mark.parametrize("golden", CASES)
def test_groups_and_refilled_time_are_those_of_the_golden_vector(golden: Golden) -> None:
    inputs = draw(golden.drawing)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages)
    if golden.groups is not None:
        totals = sum_ledgers([ledger], [range(len(ledger.rows))])
        groups = {name: ns for name, ns in totals.groups.items() if ns}
        assert groups == scale_times(golden.groups, golden.scale)
    if golden.refill is not None:
        refilled_ns: dict[str, int] = {}
        for piece in (ledger.facets.refill >= 0).nonzero()[0].tolist():
            leaf = LEAVES[int(ledger.leaf[piece])]
            length = int(ledger.end[piece] - ledger.start[piece])
            refilled_ns[leaf] = refilled_ns.get(leaf, 0) + length
        assert refilled_ns == scale_times(golden.refill, golden.scale)
