"""The account by its definition, instant by instant: slow, and sharing no code with gapless.

Every time of a drawing is a multiple of a tick, so that nothing changes within one. Each tick is
charged by looking at all frames and all activities anew; sync debt is walked tick by tick.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

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
REFILL_LEAVES = (*(f"idle.host.{name}" for name in WORK), "idle.launch.api", "idle.launch.latency")
KEPT_PREFIXES = (
    "idle.h2d",
    "idle.gc",
    "idle.alloc",
    "idle.compile",
    "idle.io_main",
    "idle.host.unframed",
)


class Charge(NamedTuple):
    leaf: str
    culprit: str
    refill: str = ""
    is_loading: bool = False  # loading in the training process


class TaggedFrame(Struct, frozen=True):
    """A frame as the account sees it."""

    frame: Frame
    tag: str  # of ORDER; "" if it is never charged
    position: int  # position

    @property
    def key(self) -> tuple[int, int, int, int]:
        return ORDER.index(self.tag), -self.frame.start, self.frame.end, self.position


class Debt(Struct):
    """What a sync left to be paid."""

    since: int
    ticks: int
    culprit: str
    expires: int


def is_inside(frame: Frame, instant: int) -> bool:
    return frame.start <= instant < frame.end


def is_blocking(act: Act) -> bool:
    call = act.call
    if call is None or act.kind not in ("h2d", "d2h"):
        return False
    return call.end >= act.end - SLACK and call.end - call.start > BLOCKS


class Oracle:
    """Charges one device of a drawing; ``ticks`` is its timeline over ``[G_0, G_K)``."""

    def __init__(self, drawing: Drawing, tick: int, device: int = 0) -> None:
        self.tick, self.all_acts, self.lost = tick, list(drawing.acts), drawing.lost
        self.acts = [act for act in self.all_acts if act.device == device]
        spans = [step for step in drawing.steps if isinstance(step, tuple)]
        self.bounds = self.window_bounds([*(s for s, _ in spans), spans[-1][1]])
        self.frames = self.tag_frames(drawing.frames, spans, drawing.overhead)
        syncs = sorted(
            self.list_syncs(),
            key=lambda tagged: (tagged.frame.end, tagged.frame.start, tagged.position),
        )
        self.debts = list(self.find_debts(syncs))
        self.error = max([0, *(a.call.start - a.start for a in self.all_acts if a.call)])
        self.ticks = self.walk()

    def window_bounds(self, steps: Sequence[int]) -> list[int]:
        bounds: list[int] = []
        for step in steps:
            drain_ends = [a.end for a in self.acts if self.launch_ns(a) < step]
            bounds.append(max([step, *bounds[-1:], *drain_ends]))
        return bounds

    @staticmethod
    def launch_ns(act: Act) -> int:
        return act.start if act.call is None else act.call.start

    # ── The host ────────────────────────────────────────────────────────────────────────────────

    def tag_frames(
        self,
        frames: Sequence[Frame],
        steps: list[tuple[int, int]],
        overhead: Sequence[tuple[int, int]],
    ) -> list[TaggedFrame]:
        calls = {a.graph or a.id: a for a in self.all_acts if a.call}
        host = [f for f in frames if f.end > f.start and f.tag != "range"]
        for act in calls.values():
            call = act.call
            if call is not None:
                tag = "wait" if act.kind == "d2h" and is_blocking(act) else "call"
                host.append(Frame(tag, call.start, call.end, call.thread, call.id))
        pairs = itertools.pairwise(steps)
        profiler_frames = [Frame("profiler", e, s, "m", "step") for (_, e), (s, _) in pairs]
        for s, e in overhead:
            for thread in {f.thread for f in host} | {"m"}:
                thread_frames = [f for f in host if f.thread == thread]
                silent = not any(s < edge < e for f in thread_frames for edge in (f.start, f.end))
                if silent and (
                    thread == "m" or any(f.start <= s and e <= f.end for f in thread_frames)
                ):
                    profiler_frames.append(Frame("profiler", s, e, thread, "overhead"))
        profiler_frames = [f for f in profiler_frames if f.end > f.start]
        return [
            TaggedFrame(f, self.find_tag(f, host), position)
            for position, f in enumerate([*host, *profiler_frames])
        ]

    def find_tag(self, frame: Frame, host: list[Frame]) -> str:
        copies = [a for a in self.all_acts if a.kind == "h2d" and a.call is not None]

        def launches(to: Frame, acts: list[Act]) -> bool:
            calls = [a.call for a in acts if a.call is not None and a.call.thread == to.thread]
            return any(is_inside(to, call.start) for call in calls)

        if frame.tag == "to":
            return "h2d" if launches(frame, copies) else "op"
        if frame.tag == "sync":
            enclosing = [f for f in host if f.tag == "to" and f.thread == frame.thread]
            enclosing = [f for f in enclosing if is_inside(f, frame.start)]
            tail = any(launches(f, [a for a in copies if is_blocking(a)]) for f in enclosing)
            return "h2d" if tail else "sync"
        tag_aliases = {
            "cpu-node": "op",
            "call": "op",
            "free": "alloc",
            "data0": "data",
            "wait": "sync",
        }
        return tag_aliases.get(frame.tag, frame.tag if frame.tag in ORDER else "")

    def find_winner(self, thread: str, instant: int) -> TaggedFrame | None:
        tagged_frames = [
            tagged for tagged in self.frames if tagged.tag and tagged.frame.thread == thread
        ]
        return min(
            (o for o in tagged_frames if is_inside(o.frame, instant)),
            key=lambda o: o.key,
            default=None,
        )

    def phi(self, thread: str, instant: int) -> Charge:
        tagged = self.find_winner(thread, instant)
        if tagged is not None:
            return (
                self.charge_wait(tagged.frame, instant)
                if tagged.tag == "data"
                else self.charge_frame(tagged)
            )
        if any(s <= instant < e for s, e in self.lost):
            return Charge("idle.unknown", "")
        burst = self.find_burst(thread, instant)
        if burst is not None:
            return Charge("idle.host.engine", burst.frame.id)
        return self.phi("m", instant) if thread != "m" else self.charge_nothing(instant)

    def charge_nothing(self, instant: int) -> Charge:
        """Charge an instant at which main has no tagged frame."""
        gc = [
            tagged.frame
            for tagged in self.frames
            if tagged.tag == "gc" and is_inside(tagged.frame, instant)
        ]
        if gc:
            return Charge("idle.gc", min(gc, key=lambda f: (f.start, f.end)).id)
        python = [o for o in self.frames if (o.frame.tag, o.frame.thread) == ("py", "m")]
        if not python and self.is_silent(instant):
            return Charge("idle.host.unframed", "")
        inner = [
            (-o.frame.start, o.frame.end, o.position) for o in python if is_inside(o.frame, instant)
        ]
        return Charge("idle.host.python", self.frames[min(inner)[2]].frame.id if inner else "")

    def charge_frame(self, tagged: TaggedFrame) -> Charge:
        retry = ".retry" if tagged.tag == "alloc" and self.is_retry(tagged.frame) else ""
        return Charge(LEAVES[tagged.tag] + retry, tagged.frame.id)

    def is_retry(self, frame: Frame) -> bool:
        def enclosing_op(f: Frame) -> int:
            ops = [o for o in self.frames if o.frame.tag in CPU_OPS and o.frame.thread == f.thread]
            candidates = [
                (-o.frame.start, o.frame.end, o.position)
                for o in ops
                if is_inside(o.frame, f.start)
            ]
            return min(candidates)[2] if candidates else -1

        op = enclosing_op(frame)
        allocs = [
            o.frame for o in self.frames if o.tag == "alloc" and enclosing_op(o.frame) == op >= 0
        ]
        frees = [f.start for f in allocs if f.tag == "free"]
        return any(f.tag == "alloc" and f.start > min(frees) for f in allocs if frees)

    def charge_wait(self, frame: Frame, instant: int) -> Charge:
        is_loading = frame.tag == "data0"
        stages = [stage for stage in frame.stages if stage[1] > stage[0]]
        if not stages:
            return Charge(
                "idle.data.main" if is_loading else "idle.data.unstaged",
                frame.id,
                is_loading=is_loading,
            )
        open_stages = [
            (-s, e, number) for number, (s, e, _) in enumerate(stages) if s <= instant < e
        ]
        if open_stages:
            name = stages[min(open_stages)[2]][2]
            return Charge(f"idle.data.{name}", f"{frame.id}:{name}", is_loading=is_loading)
        last_end, first_start = max(e for _, e, _ in stages), min(s for s, _, _ in stages)
        stage_name = (
            "hand-over"
            if instant >= last_end
            else "other"
            if instant >= first_start
            else "unstaged"
        )
        return Charge(f"idle.data.{stage_name}", frame.id, is_loading=is_loading)

    def find_burst(self, thread: str, instant: int) -> TaggedFrame | None:
        thread_frames = [o.frame for o in self.frames if o.tag and o.frame.thread == thread]
        earlier_ends = [f.end for f in thread_frames if f.end <= instant]
        following_starts = [f.start for f in thread_frames if f.start > instant]
        if not earlier_ends or not following_starts:
            return None
        x, y = max(earlier_ends), min(following_starts)
        main = [o.frame for o in self.frames if o.frame.thread == "m"]
        nodes = [f for f in main if f.tag == "cpu-node"]
        if thread == "m":
            is_between = {x} <= {f.end for f in nodes} and {y} <= {f.start for f in nodes}
            return self.find_winner("m", y) if is_between and y - x <= UNFRAMED else None
        calls = [f for f in main if f.tag in API or f.tag == "wait"]
        calls = [f for f in calls if not any(n.start <= f.start and f.end <= n.end for n in nodes)]
        busy = any(x < edge < y for f in calls for edge in (f.start, f.end))
        return None if busy else self.find_winner(thread, y)

    def is_silent(self, instant: int) -> bool:
        threads = {"m", *(a.call.thread for a in self.all_acts if a.call)}

        def is_alive(t: int) -> bool:
            if any(o.tag == "gc" and is_inside(o.frame, t) for o in self.frames):
                return True
            return any(self.find_winner(h, t) or self.find_burst(h, t) for h in threads)

        ends = [o.frame.end for o in self.frames if o.tag] or [instant]
        begins = [o.frame.start for o in self.frames if o.tag] or [instant]
        lo, hi = instant, instant
        while lo >= min(begins) and not is_alive(lo):
            lo -= self.tick
        while hi < max(ends) and not is_alive(hi):
            hi += self.tick
        is_bounded = lo >= min(begins) and hi < max(ends)
        return is_bounded and hi - lo - self.tick > UNFRAMED

    # ── Sync debt ───────────────────────────────────────────────────────────────────────────────

    def list_syncs(self) -> list[TaggedFrame]:
        counted_syncs = [tagged for tagged in self.frames if tagged.frame.start >= self.bounds[0]]
        return [tagged for tagged in counted_syncs if tagged.tag in ("sync", "alloc")]

    def find_debts(self, syncs: list[TaggedFrame]) -> Iterator["Debt"]:
        counted_until = self.bounds[0]
        for sync in syncs:
            s, e = sync.frame.start, sync.frame.end
            enqueued_acts = [a for a in self.acts if self.launch_ns(a) < s]
            tails = {
                a.stream: a
                for a in sorted(enqueued_acts, key=lambda a: (self.launch_ns(a), a.start))
            }
            bound = {stream for stream, act in tails.items() if act.end <= e}
            if sync.tag == "alloc" and not any(tails[stream].end > s for stream in bound):
                continue
            run = [a for a in enqueued_acts if a.stream in bound]
            span = range(max(s, counted_until), e, self.tick)
            amount = sum(any(a.start <= t < a.end for a in run) for t in span)
            counted_until = max(counted_until, e)
            later = [edge for edge in self.bounds if edge > e]
            expires = later[1] if len(later) > 1 else self.bounds[-1] + 1
            yield Debt(e, amount, sync.frame.id, expires)

    # ── The device ──────────────────────────────────────────────────────────────────────────────

    def find_owner(self, instant: int) -> Act | None:
        def key(act: Act) -> tuple[int, int, int, int]:
            return KINDS.index(act.kind), act.start, act.stream, self.all_acts.index(act)

        return min((a for a in self.acts if a.start <= instant < a.end), key=key, default=None)

    def walk(self) -> list[Charge]:
        charges: list[Charge] = []
        for instant in range(self.bounds[0], self.bounds[-1], self.tick):
            act = self.find_owner(instant)
            charges.append(
                self.pay(self.charge_idle(instant), instant)
                if act is None
                else self.charge_busy(act, instant)
            )
        return charges

    def pay(self, charge: Charge, instant: int) -> Charge:
        open_debts = [
            debt for debt in self.debts if debt.since <= instant < debt.expires and debt.ticks
        ]
        can_pay = (
            charge.leaf in REFILL_LEAVES
            or charge.leaf.startswith(KEPT_PREFIXES)
            or charge.is_loading
        )
        if not open_debts or not can_pay:
            return charge
        open_debts[0].ticks -= 1
        if charge.leaf in REFILL_LEAVES:
            return Charge("idle.sync.refill", open_debts[0].culprit, open_debts[0].culprit)
        return charge._replace(refill=open_debts[0].culprit)

    def charge_busy(self, act: Act, instant: int) -> Charge:
        if act.kind == "comm":
            is_late = act.last_rank is not None and instant < act.last_rank
            return Charge("comm.straggler_wait" if is_late else "comm.exposed", act.id)
        leaf = {"compute": "busy", "h2d": "copy.h2d.pinned"}.get(act.kind, f"copy.{act.kind}")
        return Charge(leaf, act.id)

    def charge_idle(self, instant: int) -> Charge:
        later_starts = [act.start for act in self.acts if act.start > instant]
        n = self.find_owner(min(later_starts)) if later_starts else None
        if n is None:
            return self.phi("m", instant)
        a = max([act.end for act in self.acts if act.end <= instant], default=self.bounds[0])
        if n.graph and any(act.graph == n.graph and act.start < n.start for act in self.acts):
            return Charge("idle.graph", n.id)
        if n.call is None or n.start - a < self.error:
            return Charge("idle.unrecorded", n.id)
        if n.call.end <= a:
            return Charge("idle.device.gap" if n.start - a <= GAP else "idle.device.wait", n.id)
        return self.charge_late(n, n.call, instant)

    def charge_late(self, n: Act, call: Call, instant: int) -> Charge:
        """Charge an instant before work whose launch had not returned when the device fell idle."""
        charge = self.phi(call.thread, instant)
        is_held = charge.leaf.startswith(("idle.profiler", "idle.gc", "idle.alloc", "idle.compile"))
        if instant < call.start or (instant < call.end and is_held):
            return charge
        if instant < call.end:
            is_staged = n.kind == "h2d" and is_blocking(n)
            return Charge("idle.h2d.host" if is_staged else "idle.launch.api", call.id)
        if n.start - call.end <= LATENCY:
            return Charge("idle.launch.latency", call.id)
        return Charge("idle.device.wait", n.id)
