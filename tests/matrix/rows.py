"""The launch matrix: one row for each launcher, loop and fate that gapless must leave unharmed.

``steps`` and ``batches`` are how many calls of ``optimizer.step`` and hand-overs of loaders must be
recorded, over all processes, neither more nor less; a recorder that sees nothing harms nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A command, what happens to it, and what must have been recorded of it."""

    launcher: str  # of ``launchers.py``
    loops: str  # of ``place/more_loops.py`` or ``loop_shapes.py``, joined by "+"
    fate: str = "end"  # of ``place/training.py``; "@n": in the n-th step
    act: str = ""  # of ``acts.py``: what is done to it from outside
    steps: int = 0
    batches: int = 0
    windows: int = 0  # at least
    options: tuple[str, ...] = ()  # of ``gapless run``
    why: str = ""  # why nothing was recorded, as the report says it
    cut: bool = False  # killed: what was not written yet is lost; at least ``steps`` are there
    varies: tuple[str, ...] = ()  # expressions of what differs from run to run, in what it prints
    needs: str = ""  # a module that is not everywhere
    tries: int = 1  # more where ranks race for what is printed first, without gapless, too
    ci: bool = False  # one of the few that run without --slow

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return "-".join(
            filter(None, (self.launcher, self.loops, self.fate, self.act, *self.options))
        )


_WORKER = (r"worker \(pid\(s\) \d+\)", r"DataLoader worker \(pid \d+\)")
# The times and process ids that torch's launchers print; their own addresses.
_ELASTIC = (
    r"\d\d\d\d \d\d:\d\d:\d\d\.\d+",
    r"\[?\d+\]? torch/distributed",
    r"(?i)\bpid:? \d+",
    r"\(pid: \d+\)",
    r"process \d+",
    r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d",
    r"host *: .*",
)
_DEEPSPEED = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+",
    r"(?i)process \d+",
    r"port=\d+",
    r"[\d.]+ seconds",
)

LAUNCHERS = (
    Row("script", "for_loop", steps=12, batches=12, ci=True),
    Row("module", "for_loop", "error", steps=3, batches=3),
    Row("command", "for_loop", steps=12, batches=12),
    Row("stdin", "for_loop", "error", steps=3, batches=3),
    Row("archive", "for_loop", steps=12, batches=12),
    Row("shell", "long", "sys_exit@100", steps=100, batches=100, windows=1),
    Row("parent", "for_loop", "error", steps=3, batches=3),
    Row("timeout", "for_loop", steps=12, batches=12),
    Row("ranks", "ddp", steps=12, batches=12),
    Row("torchrun", "ddp", steps=12, batches=12, varies=_ELASTIC),
    Row("torchrun", "ddp", "error", steps=6, batches=6, varies=_ELASTIC, tries=6),
    Row("distributed-run", "ddp", steps=12, batches=12, varies=_ELASTIC),
    Row("distributed-launch", "ddp", steps=12, batches=12, varies=_ELASTIC),
    Row("other-venv", "workers", steps=12, batches=12, ci=True),
    Row("customised", "for_loop", steps=12, batches=12),
    Row("warnings-as-errors", "workers+evaluated", steps=21, batches=27),
    Row("development-mode", "for_loop", "error", steps=3, batches=3),
    Row("optimised", "for_loop", steps=12, batches=12),
    Row("safe-path", "for_loop", steps=12, batches=12),
    Row("no-environment", "for_loop", why="without the environment"),
    Row("isolated", "for_loop", why="-I (isolated)"),
    Row("ignores-environment", "for_loop", why="-E: it ignores"),
    Row("no-site", "for_loop", why="-S: it does not import site"),
    Row("script", "nothing", why="no Python process was seen to load PyTorch", ci=True),
    Row("script", "nothing", "error", why="no Python process was seen to load PyTorch"),
    Row("no-python", "nothing", why="no Python process was seen", ci=True),
)
LOOPS = (
    Row("script", "iter_next", steps=6, batches=6),
    Row("script", "accumulation", steps=3, batches=12),
    Row("script", "gan", steps=24, batches=6),
    Row("script", "lbfgs", steps=6, batches=6),
    Row("script", "scaled", steps=6, batches=6),
    Row("script", "no_optimizer", batches=6),
    Row("script", "no_loader", steps=6),
    Row("script", "iterable", steps=6, batches=6),
    Row("script", "several", steps=10, batches=10),
    Row("script", "unbatched", steps=24, batches=24),
    Row("script", "custom", steps=3, batches=3),
    Row("script", "early_break", steps=6, batches=9),
    Row("script", "persistent", steps=14, batches=15),
    Row("script", "iterable_workers", steps=6, batches=6),
    Row("script", "broken_off", steps=2, batches=4),
    Row("script", "spawned", steps=3, batches=3),
    Row("script", "served", steps=6, batches=6),
    Row("script", "in_thread", steps=6, batches=6),
    Row("script", "pooled", steps=6, batches=6),
    Row("script", "forked", steps=6, batches=6),
    Row("script", "forked_after", steps=12, batches=12),
    Row("script", "spawned_child", steps=6, batches=6),
    Row("script", "served_child", steps=6, batches=6),
    Row("script", "generator", steps=6),
    Row("script", "evaluated", steps=9, batches=15),
)
FATES = (
    Row("script", "faulty", steps=3, batches=3),
    Row("script", "faulty_workers", steps=3, batches=3),
    Row("script", "workers", "error", steps=3, batches=3),
    Row("script", "workers", "os_exit", steps=3, batches=3, ci=True),
    Row("script", "for_loop", "sys_exit", steps=3, batches=3),
    Row("script", "persistent", "sys_exit_with_words", steps=3, batches=3),
    Row("script", "for_loop", "abort", steps=2, batches=2, cut=True),
    Row("script", "for_loop", "again", steps=15, batches=15),
    Row("script", "for_loop", "child", steps=12, batches=12),
    Row("script", "for_loop", "wait", "interrupt", steps=3, batches=3),
    Row("script", "workers", "wait", "ctrl-c", steps=3, batches=3, ci=True),
    Row("shell", "for_loop", "wait", "ctrl-c", steps=3, batches=3),
    Row("script", "for_loop", "caught", "ctrl-c", steps=3, batches=3),
    Row("script", "for_loop", "debugger", "debug", steps=12, batches=12),
    Row("script", "for_loop", "wait", "terminate", steps=2, batches=2, cut=True),
    Row("script", "workers", "wait", "terminate", steps=2, batches=2, cut=True),
    Row("script", "for_loop", "wait", "hang-up", steps=2, batches=2, cut=True),
    Row("script", "for_loop", "requeue", "requeue", steps=12, batches=12),
    Row("shell", "for_loop", "wait", "stop-and-go-on", steps=12, batches=12),
    Row("script", "for_loop", "wait", "kill", steps=2, batches=2, cut=True),
    Row("script", "workers", "wait", "kill", steps=2, batches=2, cut=True),
    Row("script", "stuck_worker", "end", "kill", steps=3, batches=3, varies=_WORKER),
    Row("script", "workers", "wait", "kill-launcher", steps=12, batches=12),
    Row("torchrun", "ddp", "wait", "kill", steps=2, batches=2, cut=True, varies=_ELASTIC),
)
WINDOWS = (
    Row("script", "long", steps=120, batches=120, windows=2),
    Row("script", "long", steps=120, batches=120, options=("--no-windows",)),
    Row("script", "long", steps=120, batches=120, options=("--quiet",), windows=2),
    Row("script", "long", "error@12", steps=12, batches=12),
    Row("script", "long", "os_exit@12", steps=12, batches=12),
    Row("script", "long", "child@12", steps=120, batches=120),
    Row("quiet-kineto", "long", "own_profiler@12", steps=120, batches=120),
    Row("script", "long", "own_trace@4", steps=120, batches=120, windows=1),
    Row("script", "long", "wait@12", "terminate", steps=11, batches=11, cut=True),
    Row("script", "long_workers", "error@100", steps=100, batches=100, windows=1),
)
LIBRARIES = (
    Row("accelerate", "accelerated", steps=6, batches=6, needs="accelerate"),
    Row("script", "accelerated", steps=6, batches=6, needs="accelerate"),
    Row("script", "lightning_fit", steps=6, batches=6, needs="lightning"),
    Row("script", "trainer", steps=6, batches=6, needs="transformers"),
    Row("deepspeed", "deepspeeded", steps=6, batches=6, needs="deepspeed", varies=_DEEPSPEED),
    Row("script", "stateful", steps=12, batches=12, needs="torchdata"),
)
ROWS = LAUNCHERS + LOOPS + FATES + WINDOWS + LIBRARIES
