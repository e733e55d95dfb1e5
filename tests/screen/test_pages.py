"""What is printed of a moment: as text, as JSON."""

import io
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.cells import cell_len

from gapless.live.outside.attached import (
    Attached,
    GpuUse,
    LineUse,
    ProcessUse,
    ThreadShare,
    ThreadUse,
)
from gapless.live.view import LiveView
from gapless.report.text.console import pen_for
from gapless.screen.attached_lines import attached_lines
from gapless.screen.document import AttachedObject, LiveObject, attached_json, live_json
from gapless.screen.page import page_lines
from tests.screen.views import RUN, UNWATCHED, WATCHED, worker

SCHEMAS = Path(__file__).parents[2] / "docs/schema"
THREAD = ThreadUse(
    10**10, 6 * 10**9, 10**9, 10**9, 2 * 10**9, {"a message": 15 * 10**8, "a lock": 5 * 10**8}, 200
)
PROCESS = ProcessUse(70, "python train.py", THREAD, 1.5, 9, 3 << 30, 2e8, 3e8, 0.0)
ATTACHED = Attached(
    pid=70,
    host="box",
    seconds=10.0,
    main=PROCESS,
    workers=(replace(PROCESS, pid=71),),
    n_started=2,
    gpus=(GpuUse("gpu0", "NVIDIA A100", 0.23, 6e10, 8e10, 212.0, 1410.0, 2.5e9, 1e8, ("heat",)),),
    lines=(LineUse(0.75, "main (train.py:9)"),),
    reading="a GPU has nothing to do 77 % of the time",
    processors=3.1,
    count=8,
    exact="cd /src && gapless run python train.py",
    notes=("GPUs: something",),
    threads=(ThreadShare(70, "python", 0.6), ThreadShare(75, "pt_autograd_0", 0.4)),
)


def page(view: LiveView, width: int) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(page_lines(view, pen))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert max(map(cell_len, lines)) <= width
    return "\n".join(lines)


def test_a_run_as_text() -> None:
    assert page(WATCHED, 100) == snapshot("""\
gapless watch · 2026-11-21T10-15-03-3f9a · running for 92.0 s · 2,300 steps
python train.py --epochs 90
now     75 % of each step the training thread waits for data, which 2 workers load
pace    now 40.00 ms a step (38.00 ms to 45.00 ms), 1,600 samples/s · so far 50.00 ms a step, 1,280
        samples/s
where a step goes  now: 750 steps                                   so far
  waiting for data    30.00 ms  75.0 %  ██████████████████            76 %
     decode 30.00
  compute             10.00 ms  25.0 %  ██████                        24 %
     matrix math 10.00
  unknown              0.00 ms   0.0 %                                 0 %
  this recorder        0.00 ms   0.0 %                                 0 %

data    train.py:41 · 2 workers · 1 of 4 batches ready ███
          worker 0 works · 70.00 ms a batch (decode 90 %, collate 10 %)
          worker 1 waits for a disk · 70.00 ms a batch (decode 90 %, collate 10 %)

gpu0    SM  23 % ██▎         memory 61.0 GiB of 80.0 GiB
        its clock is held back by heat
        NVIDIA A100 · 212 W · 1410 MHz · 84 °C · memory busy 12 % · PCIe in 2.5 GB/s, out 0.1 GB/s
cpu     3.10 of 8 processors ███▉
        the run 2.85 · others 0.20 · idle for a disk 0.03
memory  40.0 GiB of 64.0 GiB free · shared 1.0 GiB of 32.0 GiB
disk    nvme0n1 read 0.2 GB/s, written 0 KB/s, busy 63 %
network eth0 in 1 KB/s, out 0 KB/s\
""")


def test_a_run_on_a_narrow_terminal() -> None:
    assert page(WATCHED, 80) == snapshot("""\
gapless watch · 2026-11-21T10-15-03-3f9a · running for 92.0 s · 2,300 steps
python train.py --epochs 90
now     75 % of each step the training thread waits for data, which 2 workers
        load
pace    now 40.00 ms a step (38.00 ms to 45.00 ms), 1,600 samples/s · so far
        50.00 ms a step, 1,280 samples/s
where a step goes  now: 750 steps                                   so far
  waiting for data    30.00 ms  75.0 %  ██████████████████            76 %
     decode 30.00
  compute             10.00 ms  25.0 %  ██████                        24 %
     matrix math 10.00
  unknown              0.00 ms   0.0 %                                 0 %
  this recorder        0.00 ms   0.0 %                                 0 %

data    train.py:41 · 2 workers · 1 of 4 batches ready ███
          worker 0 works · 70.00 ms a batch (decode 90 %, collate 10 %)
          worker 1 waits for a disk · 70.00 ms a batch (decode 90 %, collate 10…

gpu0    SM  23 % ██▎         memory 61.0 GiB of 80.0 GiB
        its clock is held back by heat
        NVIDIA A100 · 212 W · 1410 MHz · 84 °C · memory busy 12 % · PCIe in
        2.5 GB/s, out 0.1 GB/s
cpu     3.10 of 8 processors ███▉
        the run 2.85 · others 0.20 · idle for a disk 0.03
memory  40.0 GiB of 64.0 GiB free · shared 1.0 GiB of 32.0 GiB
disk    nvme0n1 read 0.2 GB/s, written 0 KB/s, busy 63 %
network eth0 in 1 KB/s, out 0 KB/s\
""")


def test_the_machine_as_text() -> None:
    assert page(UNWATCHED, 100) == snapshot("""\
gapless watch · box · no run is watched: the machine

cpu     3.10 of 8 processors ███▉
        the run 2.85 · others 0.20 · idle for a disk 0.03
        each ██▅▄▁▁▁▁
memory  40.0 GiB of 64.0 GiB free · shared 1.0 GiB of 32.0 GiB
disk    nvme0n1 read 0.2 GB/s, written 0 KB/s, busy 63 %
network eth0 in 1 KB/s, out 0 KB/s
not seen: GPUs: NVML: no driver

     pid      cpu    memory    read/s   write/s  command
      70 R   2.50   3.0 GiB  0.2 GB/s    0 KB/s  python train.py\
""")


def test_the_processes_on_gpus_as_text() -> None:
    training, kernel = UNWATCHED.processes
    training = replace(
        training, command="/usr/bin/python /src/train.py", gpu_memory=9 << 30, gpu_busy=1.25
    )
    text = page(replace(UNWATCHED, processes=(training, kernel)), 120)
    assert "\n".join(text.splitlines()[9:]) == snapshot("""\

     pid     user      cpu  ready    memory    read/s   write/s    gpu   gpu mem  command
      70       me R   2.50   30 %   3.0 GiB  0.2 GB/s    0 KB/s  125 %   9.0 GiB  python train.py\
""")


@pytest.mark.parametrize("view", [WATCHED, UNWATCHED])
@pytest.mark.parametrize("width", [50, 64, 200])
def test_no_line_is_wider_than_the_terminal(view: LiveView, width: int) -> None:
    assert page(view, width)


def test_many_workers_are_summed_up() -> None:
    loader = replace(
        RUN.loaders[0],
        workers=tuple(
            worker(number, "works" if number else "waits for a disk") for number in range(16)
        ),
    )
    text = page(replace(WATCHED, run=replace(RUN, loaders=(loader,))), 100)
    assert "workers: 15 works · 1 waits for a disk · 70.00 ms a batch, 70.00 ms at most" in text


def test_the_slowest_of_many_ranks_are_shown() -> None:
    ranks = tuple(
        replace(RUN.ranks[0], rank=number, median_ns=(40 + number) * 10**6) for number in range(20)
    )
    lines = page(replace(WATCHED, run=replace(RUN, ranks=ranks)), 100).splitlines()
    (first,) = [line for line in lines if line.startswith("ranks")]
    assert first.split() == ["ranks", "rank", "step", "a", "step", "for", "data", "main", "thread"]
    (slowest,) = lines[lines.index(first) + 1 :][:1]
    assert slowest.split()[:3] == ["19", "2,300", "59.00"]
    assert any("4 more, whose steps are shorter" in line for line in lines)


def test_a_run_that_is_over_says_so() -> None:
    over = replace(RUN, status="killed", exit_code=-9, recent_account=None)
    text = page(replace(WATCHED, run=over), 100)
    assert "killed by signal 9 after 92" in text
    assert "the run is over: this is how it ended" in text
    assert "where a step went  (2,200 steps)" in text


def test_how_a_run_ended_is_not_cut_on_a_narrow_terminal() -> None:
    over = replace(RUN, status="killed", exit_code=-15, recent_account=None)
    first, second, command = page(replace(WATCHED, run=over), 80).splitlines()[:3]
    assert first.endswith("killed by signal 15 after 92.0 s ·")
    assert (second, command) == ("2,300 steps", "python train.py --epochs 90")


def test_until_the_run_is_studied_it_says_so() -> None:
    unstudied = replace(RUN, cause=None, account=None)
    text = page(replace(WATCHED, run=unstudied), 100)
    assert "now     studying the run so far …" in text
    failed = replace(unstudied, notes=("the whole run cannot be studied: no room",))
    assert "studying" not in page(replace(WATCHED, run=failed), 100)


@pytest.mark.parametrize("view", [WATCHED, UNWATCHED])
def test_the_json_fits_its_committed_schema(view: LiveView) -> None:
    schema = json.loads((SCHEMAS / "watch.json").read_text())
    assert schema == json.loads(json.dumps(msgspec.json.schema(LiveObject)))
    document = json.loads(live_json(view))
    jsonschema.validate(document, schema)
    assert document["view"]["machine"] == view.machine


def test_what_is_seen_from_outside_as_text() -> None:
    stream = io.StringIO()
    pen = pen_for(stream, 100)
    pen.write(attached_lines(ATTACHED, pen))
    assert "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) == snapshot("""\
gapless attach · process 70 · looked at for 10.0 s, from outside
python train.py
now     a GPU has nothing to do 77 % of the time
where the time of its main thread goes
  on a processor             60.0 %  ██████████████▍
  waiting for a processor    10.0 %  ██▍
  waiting for a disk         10.0 %  ██▍
  waiting otherwise          20.0 %  ████▊
     for a message 15 % · for a lock 5 %
process 1.50 processors · 9 threads · 3.0 GiB · 0.2 GB/s read from disks · 0.3 GB/s read in all
threads main 0.60 · pt_autograd_0 0.40
workers 71: works 60 %, waits for a processor 10 %, for a disk 10 %, else 20 % · 1.50 processors · …
        2 processes were started meanwhile
gpu0    NVIDIA A100 · a kernel ran 23 % of the time · memory 55.9 GiB of 74.5 GiB · 212 W · 1410
        MHz · PCIe in 2.5 GB/s, out 0.1 GB/s · held back by heat
cpu     3.10 of 8 processors in use, by everybody
lines    75 %  main (train.py:9)

Coarse: times on a processor are exact: the kernel counts them; what it waited for is by 200 looks
(± 7 points). Steps, batches and operators cannot be seen from outside: there is no step time here.
not seen: GPUs: something
The exact account, from a run that gapless records:
exact   cd /src && gapless run python train.py\
""")


def test_what_is_seen_from_outside_as_json() -> None:
    schema = json.loads((SCHEMAS / "attach.json").read_text())
    assert schema == json.loads(json.dumps(msgspec.json.schema(AttachedObject)))
    document = json.loads(attached_json(ATTACHED))
    jsonschema.validate(document, schema)
    assert document["attached"]["main"]["thread"]["on_processor_ns"] == 6 * 10**9
