"""The account by its definition, instant by instant: slow, and sharing no code with gapless.

Every time of a drawing is a multiple of a tick, so that nothing changes within one. Each tick is
charged by looking at all frames and all activities anew; sync debt is walked tick by tick.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.accounting.drawing import Act, Call, Drawing, Frame

GAP, LATENCY, UNFRAMED, SLACK, BLOCKS = 20_000, 100_000, 5_000_000, 25_000, 40_000
KINDS = ("compute", "comm", "h2d", "d2h", "p2p")
LEAVES = {  # in the order of the list of section 6
    "profiler": "idle.profiler",
    "gc": "idle.gc",
    "alloc": "idle.alloc",
    "compile": "idle.compile",
    "data": "idle.data",
    "sync": "idle.sync.return",
    "io": "idle.io_main.checkpoint",
    "h2d": "idle.h2d.host",
    "comm": "idle.comm.host",
    "opt": "idle.host.optimizer",
    "op": "idle.host.dispatch",
}
ORDER = list(LEAVES)
CPU_OPS = ("op", "to", "cpu-node", "h2d", "comm")
API = (*CPU_OPS, "sync", "alloc", "free", "call")
WORK = ("python", "engine", "dispatch", "optimizer")
RELABELLED = (*(f"idle.host.{name}" for name in WORK), "idle.launch.api", "idle.launch.latency")
KEPT = ("idle.h2d", "idle.gc", "idle.alloc", "idle.compile", "idle.io_main", "idle.host.unframed")


class Charge(NamedTuple):
    leaf: str
    who: str
    refill: str = ""
    home: bool = False  # loading in the training process


@dataclass(frozen=True)
class Seen:
    """A frame as the account sees it."""

    frame: Frame
    tag: str  # of ORDER; "" if it is never charged
    at: int  # position

    @property
    def key(self) -> tuple[int, int, int, int]:
        return ORDER.index(self.tag), -self.frame.start, self.frame.end, self.at


@dataclass
class Debt:
    """What a sync left to be paid."""

    since: int
    ticks: int
    who: str
    expires: int


def inside(frame: Frame, at: int) -> bool:
    return frame.start <= at < frame.end


def blocking(act: Act) -> bool:
    call = act.call
    if call is None or act.kind not in ("h2d", "d2h"):
        return False
    return call.end >= act.end - SLACK and call.end - call.start > BLOCKS


class Oracle:
    """Charges one device of a drawing; ``ticks`` is its timeline over ``[G_0, G_K)``."""

    def __init__(self, drawing: Drawing, tick: int, device: int = 0) -> None:
        self.tick, self.every, self.lost = tick, list(drawing.acts), drawing.lost
        self.acts = [act for act in self.every if act.device == device]
        spans = [step for step in drawing.steps if isinstance(step, tuple)]
        self.bounds = self.windows([*(s for s, _ in spans), spans[-1][1]])
        self.frames = self.seen(drawing.frames, spans, drawing.overhead)
        syncs = sorted(self.syncs(), key=lambda one: (one.frame.end, one.frame.start, one.at))
        self.debts = list(self.debt(syncs))
        self.error = max([0, *(a.call.start - a.start for a in self.every if a.call)])
        self.ticks = self.walk()

    def windows(self, steps: Sequence[int]) -> list[int]:
        out: list[int] = []
        for step in steps:
            drained = [a.end for a in self.acts if self.launched(a) < step]
            out.append(max([step, *out[-1:], *drained]))
        return out

    @staticmethod
    def launched(act: Act) -> int:
        return act.start if act.call is None else act.call.start

    # ── The host ────────────────────────────────────────────────────────────────────────────────

    def seen(
        self,
        frames: Sequence[Frame],
        steps: list[tuple[int, int]],
        overhead: Sequence[tuple[int, int]],
    ) -> list[Seen]:
        calls = {a.graph or a.id: a for a in self.every if a.call}
        host = [f for f in frames if f.end > f.start and f.tag != "range"]
        for act in calls.values():
            call = act.call
            if call is not None:
                tag = "wait" if act.kind == "d2h" and blocking(act) else "call"
                host.append(Frame(tag, call.start, call.end, call.thread, call.id))
        pairs = itertools.pairwise(steps)
        held = [Frame("profiler", e, s, "m", "step") for (_, e), (s, _) in pairs]
        for s, e in overhead:
            for thread in {f.thread for f in host} | {"m"}:
                mine = [f for f in host if f.thread == thread]
                silent = not any(s < edge < e for f in mine for edge in (f.start, f.end))
                if silent and (thread == "m" or any(f.start <= s and e <= f.end for f in mine)):
                    held.append(Frame("profiler", s, e, thread, "overhead"))
        held = [f for f in held if f.end > f.start]
        return [Seen(f, self.tag(f, host), at) for at, f in enumerate([*host, *held])]

    def tag(self, frame: Frame, host: list[Frame]) -> str:
        copies = [a for a in self.every if a.kind == "h2d" and a.call is not None]

        def launches(to: Frame, acts: list[Act]) -> bool:
            calls = [a.call for a in acts if a.call is not None and a.call.thread == to.thread]
            return any(inside(to, call.start) for call in calls)

        if frame.tag == "to":
            return "h2d" if launches(frame, copies) else "op"
        if frame.tag == "sync":
            around = [f for f in host if f.tag == "to" and f.thread == frame.thread]
            around = [f for f in around if inside(f, frame.start)]
            tail = any(launches(f, [a for a in copies if blocking(a)]) for f in around)
            return "h2d" if tail else "sync"
        same = {"cpu-node": "op", "call": "op", "free": "alloc", "data0": "data", "wait": "sync"}
        return same.get(frame.tag, frame.tag if frame.tag in ORDER else "")

    def winner(self, thread: str, at: int) -> Seen | None:
        mine = [one for one in self.frames if one.tag and one.frame.thread == thread]
        return min((o for o in mine if inside(o.frame, at)), key=lambda o: o.key, default=None)

    def phi(self, thread: str, at: int) -> Charge:
        one = self.winner(thread, at)
        if one is not None:
            return self.wait(one.frame, at) if one.tag == "data" else self.framed(one)
        if any(s <= at < e for s, e in self.lost):
            return Charge("idle.unknown", "")
        if thread != "m":
            burst = self.burst(thread, at)
            return (
                self.phi("m", at) if burst is None else Charge("idle.host.engine", burst.frame.id)
            )
        gc = [one.frame for one in self.frames if one.tag == "gc" and inside(one.frame, at)]
        if gc:
            return Charge("idle.gc", min(gc, key=lambda f: (f.start, f.end)).id)
        python = [o for o in self.frames if (o.frame.tag, o.frame.thread) == ("py", "m")]
        if not python and self.silent(at):
            return Charge("idle.host.unframed", "")
        inner = [(-o.frame.start, o.frame.end, o.at) for o in python if inside(o.frame, at)]
        return Charge("idle.host.python", self.frames[min(inner)[2]].frame.id if inner else "")

    def framed(self, one: Seen) -> Charge:
        retry = ".retry" if one.tag == "alloc" and self.retried(one.frame) else ""
        return Charge(LEAVES[one.tag] + retry, one.frame.id)

    def retried(self, frame: Frame) -> bool:
        def around(f: Frame) -> int:
            ops = [o for o in self.frames if o.frame.tag in CPU_OPS and o.frame.thread == f.thread]
            opened = [(-o.frame.start, o.frame.end, o.at) for o in ops if inside(o.frame, f.start)]
            return min(opened)[2] if opened else -1

        op = around(frame)
        allocs = [o.frame for o in self.frames if o.tag == "alloc" and around(o.frame) == op >= 0]
        frees = [f.start for f in allocs if f.tag == "free"]
        return any(f.tag == "alloc" and f.start > min(frees) for f in allocs if frees)

    def wait(self, frame: Frame, at: int) -> Charge:
        home = frame.tag == "data0"
        stages = [stage for stage in frame.stages if stage[1] > stage[0]]
        if not stages:
            return Charge("idle.data.main" if home else "idle.data.unstaged", frame.id, home=home)
        opened = [(-s, e, number) for number, (s, e, _) in enumerate(stages) if s <= at < e]
        if opened:
            name = stages[min(opened)[2]][2]
            return Charge(f"idle.data.{name}", f"{frame.id}:{name}", home=home)
        past, begun = max(e for _, e, _ in stages), min(s for s, _, _ in stages)
        rest = "hand-over" if at >= past else "other" if at >= begun else "unstaged"
        return Charge(f"idle.data.{rest}", frame.id, home=home)

    def burst(self, thread: str, at: int) -> Seen | None:
        mine = [o.frame for o in self.frames if o.tag and o.frame.thread == thread]
        before = [f.end for f in mine if f.end <= at]
        after = [f.start for f in mine if f.start > at]
        if not before or not after:
            return None
        x, y = max(before), min(after)
        main = [o.frame for o in self.frames if o.frame.thread == "m"]
        nodes = [f for f in main if f.tag == "cpu-node"]
        calls = [f for f in main if f.tag in API or f.tag == "wait"]
        calls = [f for f in calls if not any(n.start <= f.start and f.end <= n.end for n in nodes)]
        busy = any(x < edge < y for f in calls for edge in (f.start, f.end))
        return None if busy else self.winner(thread, y)

    def silent(self, at: int) -> bool:
        threads = {"m", *(a.call.thread for a in self.every if a.call)}

        def alive(t: int) -> bool:
            if any(o.tag == "gc" and inside(o.frame, t) for o in self.frames):
                return True
            return any(self.winner(h, t) or (h != "m" and self.burst(h, t)) for h in threads)

        ends = [o.frame.end for o in self.frames if o.tag] or [at]
        begins = [o.frame.start for o in self.frames if o.tag] or [at]
        lo, hi = at, at
        while lo >= min(begins) and not alive(lo):
            lo -= self.tick
        while hi < max(ends) and not alive(hi):
            hi += self.tick
        bounded = lo >= min(begins) and hi < max(ends)
        return bounded and hi - lo - self.tick > UNFRAMED

    # ── Sync debt ───────────────────────────────────────────────────────────────────────────────

    def syncs(self) -> list[Seen]:
        later = [one for one in self.frames if one.frame.start >= self.bounds[0]]
        return [one for one in later if one.tag in ("sync", "alloc")]

    def debt(self, syncs: list[Seen]) -> Iterator["Debt"]:
        counted = self.bounds[0]
        for sync in syncs:
            s, e = sync.frame.start, sync.frame.end
            enqueued = [a for a in self.acts if self.launched(a) < s]
            tails = {
                a.stream: a for a in sorted(enqueued, key=lambda a: (self.launched(a), a.start))
            }
            bound = {stream for stream, last in tails.items() if last.end <= e}
            if sync.tag == "alloc" and not any(tails[stream].end > s for stream in bound):
                continue
            run = [a for a in enqueued if a.stream in bound]
            span = range(max(s, counted), e, self.tick)
            amount = sum(any(a.start <= t < a.end for a in run) for t in span)
            counted = max(counted, e)
            later = [edge for edge in self.bounds if edge > e]
            expires = later[1] if len(later) > 1 else self.bounds[-1] + 1
            yield Debt(e, amount, sync.frame.id, expires)

    # ── The device ──────────────────────────────────────────────────────────────────────────────

    def owner(self, at: int) -> Act | None:
        def key(act: Act) -> tuple[int, int, int, int]:
            return KINDS.index(act.kind), act.start, act.stream, self.every.index(act)

        return min((a for a in self.acts if a.start <= at < a.end), key=key, default=None)

    def walk(self) -> list[Charge]:
        out: list[Charge] = []
        for at in range(self.bounds[0], self.bounds[-1], self.tick):
            act = self.owner(at)
            out.append(self.pay(self.idle(at), at) if act is None else self.busy(act, at))
        return out

    def pay(self, charge: Charge, at: int) -> Charge:
        owed = [debt for debt in self.debts if debt.since <= at < debt.expires and debt.ticks]
        works = charge.leaf in RELABELLED or charge.leaf.startswith(KEPT) or charge.home
        if not owed or not works:
            return charge
        owed[0].ticks -= 1
        if charge.leaf in RELABELLED:
            return Charge("idle.sync.refill", owed[0].who, owed[0].who)
        return charge._replace(refill=owed[0].who)

    def busy(self, act: Act, at: int) -> Charge:
        if act.kind == "comm":
            late = act.last_rank is not None and at < act.last_rank
            return Charge("comm.straggler_wait" if late else "comm.exposed", act.id)
        leaf = {"compute": "busy", "h2d": "copy.h2d.pinned"}.get(act.kind, f"copy.{act.kind}")
        return Charge(leaf, act.id)

    def idle(self, at: int) -> Charge:
        coming = [act.start for act in self.acts if act.start > at]
        n = self.owner(min(coming)) if coming else None
        if n is None:
            return self.phi("m", at)
        a = max([act.end for act in self.acts if act.end <= at], default=self.bounds[0])
        if n.graph and any(act.graph == n.graph and act.start < n.start for act in self.acts):
            return Charge("idle.graph", n.id)
        if n.call is None or n.start - a < self.error:
            return Charge("idle.unrecorded", n.id)
        if n.call.end <= a:
            return Charge("idle.device.gap" if n.start - a <= GAP else "idle.device.wait", n.id)
        return self.late(n, n.call, at)

    def late(self, n: Act, call: Call, at: int) -> Charge:
        """Charge an instant before work whose launch had not returned when the device fell idle."""
        now = self.phi(call.thread, at)
        holds = now.leaf.startswith(("idle.profiler", "idle.gc", "idle.alloc", "idle.compile"))
        if at < call.start or (at < call.end and holds):
            return now
        if at < call.end:
            staged = n.kind == "h2d" and blocking(n)
            return Charge("idle.h2d.host" if staged else "idle.launch.api", call.id)
        if n.start - call.end <= LATENCY:
            return Charge("idle.launch.latency", call.id)
        return Charge("idle.device.wait", n.id)
