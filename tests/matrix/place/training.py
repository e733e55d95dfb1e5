"""A training of the launch matrix: ``training.py LOOP[+LOOP…] [FATE]``.

What it leaves at its end (``state-….txt``) is whatever a recorder could have disturbed.
"""

import atexit
import gc
import hashlib
import os
import random
import signal
import sys
import threading
import time
import warnings

RANK = os.environ.get("RANK", "0")
STRUCK = 3  # the step in which the fate comes; a long loop meets it later
FATES = {}


def digest(value):
    return hashlib.sha256(value).hexdigest()[:16]


def named(action):
    return getattr(action, "__qualname__", action)


def write_state(who=RANK):
    """Write down what is random, and what else the script could see of a recorder."""
    lines = [f"random {digest(repr(random.getstate()).encode())}"]
    if "numpy" in sys.modules:
        import numpy as np

        lines.append(f"numpy {digest(repr(np.random.get_state()).encode())}")  # noqa: NPY002
    if "torch" in sys.modules:
        import torch

        lines.append(f"torch {digest(torch.get_rng_state().numpy().tobytes())}")
        lines.append(f"{torch.is_grad_enabled()} {torch.get_num_threads()}")
        lines.append(f"{torch.get_default_dtype()} {torch.cuda.is_initialized()}")
    lines.append(f"{sorted(one.name for one in threading.enumerate())} {gc.isenabled()}")
    lines.append(f"{gc.get_threshold()} {gc.get_debug()} {len(warnings.filters)}")
    lines.append(f"{named(sys.getprofile())} {named(sys.gettrace())} {sys.getrecursionlimit()}")
    for number in sorted(signal.valid_signals()):
        action = signal.getsignal(number)
        if action:
            lines.append(f"{number} {named(action)}")
    with open(f"state-{who}.txt", "w") as file:
        print(*lines, sep="\n", file=file)


# Before torch is imported, and so after all that is registered from then on.
atexit.register(write_state)


def fate(function):
    FATES[function.__name__] = function
    return function


@fate
def end():
    pass


@fate
def error():
    raise ValueError("the loss is not finite")


@fate
def os_exit():
    write_state("before")
    sys.stdout.flush()
    os._exit(3)


@fate
def sys_exit():
    sys.exit(3)


@fate
def sys_exit_with_words():
    sys.exit("enough")


@fate
def abort():
    write_state("before")
    sys.stdout.flush()
    os.abort()


@fate
def again():
    """Replace the process, as trainings do that requeue themselves."""
    write_state("before")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, sys.argv[0], sys.argv[1], "end"])


@fate
def debugger():
    value = 41
    breakpoint()
    print("went on with", value)


@fate
def child():
    """Fork, and leave as forked children should."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        random.seed(2)  # Python sowed it anew, from the system
        write_state("child")
        os._exit(0)
    print("child", os.waitpid(pid, 0)[1])


@fate
def wait():
    """Tell the harness that we are there; it does something and opens the gate."""
    write_state("before")
    gate = os.open(f"gate{RANK}", os.O_RDWR)
    with open(f"ready{RANK}.part", "w") as file:
        print(os.getpid(), file=file)
    os.rename(f"ready{RANK}.part", f"ready{RANK}")
    os.read(gate, 1)


@fate
def requeue():
    """Save when the batch system says that time is nearly up, and go on."""

    def save(number, frame):
        import torch

        torch.save(torch.arange(3), "requeue.pt")
        print("requeue", number, frame.f_code.co_name)
        open("heard", "w").close()

    signal.signal(signal.SIGUSR1, save)
    wait()


@fate
def caught():
    """Save what there is on Ctrl-C, and leave in good order."""
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(8)


@fate
def own_profiler():
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.zeros(3).sum()
    print(len(prof.events()))


@fate
def own_trace():
    """Look at every call, as coverage and debuggers do."""
    sys.setprofile(lambda *_: None)


def strike(how, at):
    """Let a fate come after some step of whichever loop."""
    import loop_shapes

    plain, calls = loop_shapes.train_step, [0]

    def step(*given):
        loss = plain(*given)
        calls[0] += 1
        if calls[0] == at - 1 and how in ("wait", "abort"):
            time.sleep(0.15)  # so that the next step is due to be written
        if calls[0] == at:
            FATES[how]()
        return loss

    loop_shapes.train_step = step


def main(arguments):
    names, how = arguments[0].split("+"), [*arguments, "end"][1]
    random.seed(1)
    if names == ["nothing"]:
        FATES[how]()
        print("the end")
        return
    import more_loops
    import numpy as np
    import torch

    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    name, _, at = how.partition("@")
    strike(name, int(at or STRUCK))
    for each in names:
        # In one piece: torchrun's ranks share an output without a buffer.
        sys.stdout.write(f"{each} {getattr(more_loops, each)()}\n")
    if RANK == "0":
        torch.save(torch.get_rng_state(), "end.pt")
        print("the end", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
