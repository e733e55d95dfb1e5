# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204, BLE001, N818, PLW0108, SIM115, SLF001
# ruff: noqa: PTH123, PTH202, PTH208
# pyright: basic, reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false
"""What scripts do to a recorder, and a recorder that breaks. Arguments: which of it."""

import contextlib
import gc
import os
import resource
import shutil
import signal
import sys
import threading
import time
import traceback

import torch
from loop_shapes import DATA, Images, over, step, training
from torch.utils.data import DataLoader, IterableDataset

torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.5  # s: so long are workers waited for
SPOOL = os.environ.get("GAPLESS_SPOOL")
RECORDED = [
    ("recorder", "mark"),
    ("recorder", "fact"),
    ("recorder", "identify"),
    ("recorder", "alias"),
    ("recorder", "site"),
    ("recorder", "flush_when_due"),
    ("recorder", "begin"),
    ("recorder", "edge"),
    ("recorder", "now"),
    ("recorder", "batch"),
    ("stepping", "stepped"),
    ("stepping", "handed_over"),
    ("fullness", "wanted"),
    ("loaderfacts", "values"),
    ("places", "users_line"),
    ("process", "description"),
    ("sink", "append"),
    ("sink", "claim"),
]


def ours(name):
    return sys.modules.get(f"_gapless.payload.{name}")


def broken(*_, **__):
    raise RuntimeError("a hook of ours is broken")


def broken_recorder():
    """Break one function of the recorder's after another, and train."""
    found = []
    for name, attribute in RECORDED:
        module = ours(name)
        kept = getattr(module, attribute, None)
        if module is not None:
            for hook in (*ours("patching")._guards, *ours("patching")._patches):
                hook.on, hook.failures = True, 0
            setattr(module, attribute, broken)
        found.append(over(DataLoader(DATA, 8, shuffle=True)))
        if module is not None:
            setattr(module, attribute, kept)
    found.append(over(DataLoader(Images(), 8, num_workers=1)))
    return found


class Short(IterableDataset):
    """Says that it is shorter than it is: torch warns, at the line of whoever asks for more."""

    def __repr__(self):
        return "short"

    def __len__(self):
        return 2

    def __iter__(self):
        return iter(range(4))


class Bad(Images):
    def __getitem__(self, index):
        if index == 5:
            raise KeyError(index)
        return super().__getitem__(index)


def told(action):
    try:
        action()
    except BaseException:
        print(traceback.format_exc())


def errors():
    """Raise everywhere; print every traceback."""
    told(lambda: over(DataLoader(Bad(), 4)))
    told(lambda: over(DataLoader(Bad(), 4, num_workers=1)))
    told(lambda: DataLoader(DATA, -3, num_workers=-1))
    told(lambda: torch.optim.SGD([], lr=0.1))
    told(lambda: next(iter(DataLoader(DATA, 4, sampler=5))))
    told(lambda: training()[1].step(broken))
    loader = DataLoader(Short(), 1)
    len(loader)
    for _ in loader:
        pass
    for _ in DataLoader(DATA, 24, pin_memory=True):
        pass


def vandal():
    """Replace and clear what belongs to everybody."""
    gc.callbacks.clear()
    before, out = DataLoader.__iter__, sys.stdout
    DataLoader.__iter__ = lambda self: before(self)
    sys.stdout = open(os.devnull, "w")
    over(DataLoader(DATA, 4))
    sys.stdout.close()
    DataLoader.__iter__, sys.stdout = before, out
    DataLoader.__iter__ = lambda self: self._get_iterator()
    found = over(DataLoader(DATA, 4))
    DataLoader.__iter__ = before
    return found


def closed():
    """Close every descriptor, and give the recorder's number to a file of ours."""
    over(DataLoader(DATA, 4))
    sink = ours("sink")
    time.sleep(0.12)
    over(DataLoader(DATA, 4))
    number = 300 if sink is None else sink._fd
    os.closerange(3, 1000)
    mine = os.open("mine", os.O_RDWR | os.O_CREAT)
    os.dup2(mine, number)
    for _ in range(3):
        time.sleep(0.12)
        found = over(DataLoader(DATA, 4))
    return found, os.path.getsize("mine"), os.fstat(number).st_size


def full():
    """Let no file grow for a while: the disk is full, and then it is not."""
    if SPOOL:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, resource.RLIM_INFINITY))
    found = []
    for round_ in range(6):
        if round_ == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        found.append(over(DataLoader(DATA, 1), epochs=4))
        time.sleep(0.12)
    return found


def vanished():
    """Remove the folder that the recorder writes into."""
    found = [over(DataLoader(DATA, 4))]
    if SPOOL:
        shutil.rmtree(SPOOL)
    time.sleep(0.12)
    found += [over(DataLoader(DATA, 4)), over(DataLoader(Images(), 8, num_workers=1))]
    return found


def threads():
    """Step in two threads at once."""
    model, optimizer = training()
    other, another = training()

    def work(model, optimizer):
        for _ in range(20):
            step(model, optimizer, DATA[:4])

    both = [
        threading.Thread(target=work, args=pair) for pair in ((model, optimizer), (other, another))
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    return threading.active_count(), [type(one).__name__ for one in threading.enumerate()]


def forks():
    """Train in a child made by fork."""
    found = over(DataLoader(DATA, 4))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        over(DataLoader(DATA, 4))
        os._exit(7)
    return found, os.waitpid(child, 0)[1]


def epochs():
    """Make many short epochs; count what is left open and running."""
    loader = DataLoader(DATA, 24)
    over(loader)
    before = left()
    over(loader, epochs=10_000)
    identities = ours("identities")
    if identities is not None:
        assert len(identities._things) < 200, len(identities._things)
    return left() - before


def left():
    """Count open files and threads."""
    return sum(len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task"))


class Alarm(Exception):
    """What a script's watchdog raises."""


def alarms():
    """Raise from a signal handler at random moments: every one of them arrives."""
    heard = []
    over(DataLoader(DATA, 4))

    def raising(*_):
        heard.append(1)
        raise Alarm

    signal.signal(signal.SIGALRM, raising)
    missed = 0
    for number in range(40):
        torch.set_grad_enabled(True)  # torch itself may be caught before it puts this back
        with contextlib.suppress(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * (number + 1))
            over(DataLoader(DATA, 1), epochs=30)
            missed += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return len(heard), missed


if __name__ == "__main__":
    torch.manual_seed(1)
    for name in sys.argv[1:]:
        print(name, globals()[name](), flush=True)
    print(torch.get_rng_state().sum().item())
