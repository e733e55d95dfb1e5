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
from loop_shapes import DATA, Images, make_training, train_over, train_step
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
    ("stepping", "note_step"),
    ("stepping", "note_batch"),
    ("loading.padding", "is_look_due"),
    ("loading.loader_facts", "values"),
    ("stacks.locations", "users_line"),
    ("log.process", "description"),
    ("log.sink", "append"),
    ("log.sink", "claim"),
]


def recorder_module(name):
    return sys.modules.get(f"_gapless.payload.{name}")


def raise_broken(*_, **__):
    raise RuntimeError("a hook of ours is broken")


def broken_recorder():
    """Break one function of the recorder's after another, and train."""
    losses = []
    for name, attribute in RECORDED:
        module = recorder_module(name)
        original = getattr(module, attribute, None)
        if module is not None:
            patches = recorder_module("patching")._patches
            for hook in (*patches.guards, *patches.hooks):
                hook.on, hook.failures = True, 0
            setattr(module, attribute, raise_broken)
        losses.append(train_over(DataLoader(DATA, 8, shuffle=True)))
        if module is not None:
            setattr(module, attribute, original)
    losses.append(train_over(DataLoader(Images(), 8, num_workers=1)))
    return losses


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


def print_error(action):
    try:
        action()
    except BaseException:
        print(traceback.format_exc())


def errors():
    """Raise everywhere; print every traceback."""
    print_error(lambda: train_over(DataLoader(Bad(), 4)))
    print_error(lambda: train_over(DataLoader(Bad(), 4, num_workers=1)))
    print_error(lambda: DataLoader(DATA, -3, num_workers=-1))
    print_error(lambda: torch.optim.SGD([], lr=0.1))
    print_error(lambda: next(iter(DataLoader(DATA, 4, sampler=5))))
    print_error(lambda: make_training()[1].step(raise_broken))
    loader = DataLoader(Short(), 1)
    len(loader)
    for _ in loader:
        pass
    for _ in DataLoader(DATA, 24, pin_memory=True):
        pass
    # What the errors left is garbage: threads, and batches of workers, with which torch ends a
    # process if their descriptors were closed before.
    gc.collect()


def vandal():
    """Replace and clear what belongs to everybody."""
    gc.callbacks.clear()
    original_iter, out = DataLoader.__iter__, sys.stdout
    DataLoader.__iter__ = lambda self: original_iter(self)
    sys.stdout = open(os.devnull, "w")
    train_over(DataLoader(DATA, 4))
    sys.stdout.close()
    DataLoader.__iter__, sys.stdout = original_iter, out
    DataLoader.__iter__ = lambda self: self._get_iterator()
    loss = train_over(DataLoader(DATA, 4))
    DataLoader.__iter__ = original_iter
    return loss


def closed():
    """Close every descriptor, and give the recorder's number to a file of ours."""
    train_over(DataLoader(DATA, 4))
    sink = recorder_module("log.sink")
    time.sleep(0.12)
    train_over(DataLoader(DATA, 4))
    recorder_fd = 300 if sink is None else sink.log.fd
    os.closerange(3, 1000)
    own_fd = os.open("mine", os.O_RDWR | os.O_CREAT)
    os.dup2(own_fd, recorder_fd)
    for _ in range(3):
        time.sleep(0.12)
        loss = train_over(DataLoader(DATA, 4))
    return loss, os.path.getsize("mine"), os.fstat(recorder_fd).st_size


def full():
    """Let no file grow for a while: the disk is full, and then it is not."""
    if SPOOL:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, resource.RLIM_INFINITY))
    losses = []
    for round_ in range(6):
        if round_ == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        losses.append(train_over(DataLoader(DATA, 1), epochs=4))
        time.sleep(0.12)
    return losses


def vanished():
    """Remove the folder that the recorder writes into."""
    losses = [train_over(DataLoader(DATA, 4))]
    if SPOOL:
        shutil.rmtree(SPOOL)
    time.sleep(0.12)
    losses += [train_over(DataLoader(DATA, 4)), train_over(DataLoader(Images(), 8, num_workers=1))]
    return losses


def threads():
    """Step in two threads at once."""
    model, optimizer = make_training()
    second_model, second_optimizer = make_training()

    def train_loop(model, optimizer):
        for _ in range(20):
            train_step(model, optimizer, DATA[:4])

    trainers = [
        threading.Thread(target=train_loop, args=pair)
        for pair in ((model, optimizer), (second_model, second_optimizer))
    ]
    for thread in trainers:
        thread.start()
    for thread in trainers:
        thread.join()
    return threading.active_count(), [type(thread).__name__ for thread in threading.enumerate()]


def forks():
    """Train in a child made by fork."""
    loss = train_over(DataLoader(DATA, 4))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        train_over(DataLoader(DATA, 4))
        os._exit(7)
    return loss, os.waitpid(child, 0)[1]


def epochs():
    """Make many short epochs; count what is left open and running."""
    loader = DataLoader(DATA, 24)
    train_over(loader)
    n_before = count_open()
    train_over(loader, epochs=10_000)
    identities = recorder_module("identities")
    if identities is not None:
        assert len(identities._ids.entities) < 200, len(identities._ids.entities)
    return count_open() - n_before


def count_open():
    """Count open files and threads."""
    return sum(len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task"))


class Alarm(Exception):
    """What a script's watchdog raises."""


def alarms():
    """Raise from a signal handler at random moments: every one of them arrives."""
    heard_alarms = []
    train_over(DataLoader(DATA, 4))

    def raising(*_):
        heard_alarms.append(1)
        raise Alarm

    signal.signal(signal.SIGALRM, raising)
    n_missed = 0
    for number in range(40):
        torch.set_grad_enabled(True)  # torch itself may be caught before it puts this back
        with contextlib.suppress(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * (number + 1))
            train_over(DataLoader(DATA, 1), epochs=30)
            n_missed += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return len(heard_alarms), n_missed


if __name__ == "__main__":
    torch.manual_seed(1)
    for name in sys.argv[1:]:
        print(name, globals()[name](), flush=True)
    print(torch.get_rng_state().sum().item())
