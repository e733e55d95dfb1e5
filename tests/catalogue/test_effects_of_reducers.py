"""What arguments of DistributedDataParallel leave out, for replay, and that torch does so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import EFFECTS
from gapless.catalogue.effects.reducer import SEARCH
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.queries.ranks import transports
from gapless.catalogue.queries.ranks.buckets import change_buckets, suitable_mib
from gapless.catalogue.queries.ranks.collectives import remains_of_fewer
from gapless.catalogue.rules.ranks.meeting_in_step import meeting_in_step
from gapless.catalogue.rules.ranks.one_process_for_gpus import one_process_for_gpus
from gapless.catalogue.rules.ranks.slow_backend import slow_backend
from gapless.catalogue.rules.ranks.small_buckets import small_buckets
from gapless.model.change import Bucket, Change, Delay, HostChange, Omit, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine, HotLine
from gapless.model.reducer import COPY_BACK, REDUCE_CALL
from gapless.model.tables import CollectiveRow
from gapless.pricing.diagnose import run_rules
from gapless.pricing.simulators.account_model import predict_by_account

CROWDS = [(2, 1, True), (8, 1, False), (8, 4, True)]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
WORK = {"busy.math": 30.0, "comm.exposed": 10.0}
PARTS = (
    operator(COPY_BACK, calls=50, host_ms=2),
    operator(SEARCH, calls=1, host_ms=1),
    operator(REDUCE_CALL, calls=4, host_ms=1),
)
SEARCH_GONE = (
    Omit((SEARCH,)),
    HostChange(("comm.exposed", "idle.comm."), Estimate(0.75, 0.875, 1.0)),
)
TRAINING = """
import json, os, sys, torch
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("gloo")
for settings in json.loads(sys.argv[1]):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model = torch.nn.parallel.DistributedDataParallel(model, **settings)
    for _ in range(2):
        with torch.profiler.profile() as profiler:
            model(torch.randn(4, 8)).sum().backward()
    print(json.dumps([event.name for event in profiler.events()]))
"""


@pytest.mark.parametrize(
    ("fix", "changes"),
    [
        ("ddp-bucket-view", (Omit((COPY_BACK,)),)),
        ("ddp-no-unused", SEARCH_GONE),
        ("ddp-static-graph", SEARCH_GONE),
    ],
)
def test_what_windows_show_of_the_reducer_is_left_out(
    fix: str, changes: tuple[Change, ...]
) -> None:
    facts = example_facts.cpu(
        example_facts.ddp(find_unused_parameters=True), example_facts.world(ranks=2)
    )
    proposal = listing.propose_named(fix, facts)[0]
    assert EFFECTS[fix](evidence_of(facts, WORK, *PARTS), proposal) == changes
    assert EFFECTS[fix](evidence_of(facts, WORK), proposal) is None


def test_a_search_in_every_other_step_leaves_an_exchange_of_gradients() -> None:
    facts = example_facts.cpu(
        example_facts.ddp(find_unused_parameters=True), example_facts.world(ranks=2)
    )
    ranks = {"busy.math": 20.0, "comm.exposed": 5.0, "comm.wait_estimated": 10.0}
    calls = operator(SEARCH, calls=0.5, host_ms=1), operator(REDUCE_CALL, calls=1, host_ms=1)
    evidence = evidence_of_ranks(facts, ranks, ranks, parts=calls)
    changes = EFFECTS["ddp-no-unused"](evidence, listing.propose_named("ddp-no-unused", facts)[0])
    assert changes is not None
    waits = changes[-1]
    assert isinstance(waits, HostChange)
    assert waits.factor.mid == pytest.approx(1 - 10 / 35 * (1 - 0.5**0.5))


def test_gradients_of_a_gpu_that_no_window_shows_are_no_pages_of_the_host() -> None:
    facts = example_facts.gpu(example_facts.ddp(), example_facts.optimizer(parameters=2**23))
    evidence = evidence_of(facts, WORK, *PARTS, on_device=False)
    proposal = listing.propose_named("ddp-bucket-view", facts)[0]
    assert EFFECTS["ddp-bucket-view"](evidence, proposal) == (Omit((COPY_BACK,)),)


def with_exchanges(evidence: Evidence, *exchanges: tuple[int, int]) -> Evidence:
    """Return evidence of a device with an all-reduce of so many MiB and ns each."""
    rows = tuple(
        CollectiveRow("allreduce", None, 2, 1, size << 20, ns, None, ns, 0)
        for size, ns in exchanges
    )
    tables = replace(evidence.study.tables, collectives=rows)
    return replace(evidence, study=replace(evidence.study, tables=tables))


@pytest.mark.parametrize(
    ("exchanges", "kept"), [([(1, 1000), (8, 8000)], 0.5), ([(8, 8000), (8, 8000)], 0.75)]
)
def test_half_of_the_bytes_take_half_as_long_and_the_hook_its_own_time(
    exchanges: list[tuple[int, int]], kept: float
) -> None:
    facts = example_facts.gpu(example_facts.ddp(backend="nccl"), example_facts.world(ranks=2))
    evidence = with_exchanges(evidence_of(facts, WORK, *PARTS), *exchanges)
    changes = EFFECTS["ddp-bf16"](evidence, listing.propose_named("ddp-bf16", facts)[0])
    assert changes is not None
    transfers, hook = changes
    assert isinstance(transfers, Scale)
    assert transfers.factor.mid == pytest.approx(kept)
    assert hook == Delay(4 * 300_000)


@pytest.mark.parametrize(
    ("exchanges", "kept"),
    [
        ([(1, 1000), (8, 8000)], 1.0),  # bytes alone
        ([(1, 3000), (8, 3000)], 0.25),  # latency alone
        ([(8, 3000), (8, 3000)], None),
    ],
)
def test_fewer_exchanges_of_a_device_save_the_latency_of_each(
    exchanges: list[tuple[int, int]], kept: float | None
) -> None:
    evidence = with_exchanges(evidence_of(example_facts.gpu(), WORK), *exchanges)
    remaining = remains_of_fewer(evidence, n_calls=8, n_after=2)
    assert (remaining and remaining.mid) == (kept and pytest.approx(kept))


@pytest.mark.parametrize(
    ("numbers", "remaining"), [(2**16, Estimate(0.0, 0.25, 0.625)), (2**20, None)]
)
def test_without_a_device_exchanges_of_few_bytes_are_latency(
    numbers: int, remaining: Estimate | None
) -> None:
    facts = example_facts.cpu(example_facts.optimizer(parameters=numbers))
    assert remains_of_fewer(evidence_of(facts, WORK), n_calls=8, n_after=2) == remaining


def test_a_group_of_one_process_is_worth_its_transfers_too() -> None:
    call = CallLine("train.py", 30, "f", "torch/distributed/c10d_logger.py", "wrapper", 0.8)
    evidence = evidence_of(
        example_facts.cpu(example_facts.world(ranks=1)),
        {"busy.math": 10, "comm.exposed": 28, "idle.comm.host": 2},
        operator(REDUCE_CALL, calls=132, host_ms=3),
        call,
        HotLine("training", "train.py", 30, "f", 400, 0.8),
    )
    (detection,), _ = run_rules(evidence, (meeting_in_step,))
    speedup = predict_by_account(evidence, detection.changes).speedup
    assert speedup is not None
    assert speedup.mid == pytest.approx(1 / 0.2)


@pytest.mark.parametrize(
    ("cap_mib", "change"),
    [
        (0.1, Omit((REDUCE_CALL,), keep=0.02)),
        (5.0, Bucket(25 << 20, 25 << 20, Estimate(0.0, 0.5, 1.0), transports.NVLINK.slowdown)),
    ],
)
def test_fewer_buckets_of_a_device_carry_the_same_bytes(cap_mib: float, change: Change) -> None:
    facts = example_facts.gpu(
        example_facts.ddp(bucket_cap_mb=cap_mib), example_facts.world(ranks=2)
    )
    evidence = evidence_of(facts, WORK, operator(REDUCE_CALL, calls=100, host_ms=3))
    (detection,), _ = run_rules(evidence, (small_buckets,))
    assert detection.changes == (change,)


@pytest.mark.parametrize(
    ("mib", "device", "suits"),
    [(400, "NVIDIA H200", 25.0), (40, "NVIDIA H200", 10.0), (400, "NVIDIA A10", 3.0)],
)
def test_a_bucket_that_suits_takes_eight_times_its_latency(
    mib: int, device: str, suits: float
) -> None:
    facts = example_facts.gpu(
        example_facts.ddp(bucket_cap_mb=1000.0), example_facts.world(ranks=2),
        example_facts.optimizer(parameters=mib << 18),
    )  # fmt: skip
    facts = replace(facts, machine=replace(facts.machine, device=device))
    evidence = evidence_of(facts, WORK, operator(REDUCE_CALL, calls=1, host_ms=3))
    assert suitable_mib(evidence) == suits
    share = change_buckets(evidence, suits).latency
    assert 0 < share.low < share.mid < 0.2


@pytest.mark.parametrize(
    ("work", "gone_share"),
    [
        ({"busy.tc_math": 30, "idle.host.python": 60, "idle.sync": 7, "comm.exposed": 3}, 0.1),
        ({"busy.tc_math": 60, "copy.d2h": 5, "copy.h2d.pageable": 25, "comm.exposed": 10}, 0.2),
    ],
)
def test_another_backend_saves_neither_python_nor_copies_of_batches(
    work: dict[str, float], gone_share: float
) -> None:
    facts = example_facts.gpu(example_facts.ddp(backend="gloo"), example_facts.world(ranks=2))
    evidence = evidence_of(facts, work)
    (detection,), _ = run_rules(evidence, (slow_backend,))
    speedup = predict_by_account(evidence, detection.changes).speedup
    assert speedup is not None
    assert speedup.mid == pytest.approx(1 / (1 - gone_share), rel=1e-3)


@pytest.mark.parametrize("device", ["NVIDIA H200", "NVIDIA A10"])
def test_gradients_of_unknown_size_are_as_many_as_gloo_exchanged_meanwhile(device: str) -> None:
    facts = example_facts.gpu(example_facts.ddp(backend="gloo"), example_facts.world(ranks=2))
    facts = replace(facts, machine=replace(facts.machine, device=device))
    evidence = evidence_of(facts, {"busy.tc_math": 40.0, "comm.exposed": 60.0})
    (detection,), _ = run_rules(evidence, (slow_backend,))
    speedup = predict_by_account(evidence, detection.changes).speedup
    assert speedup is not None
    gloo, nccl = (t.bus_bytes_per_s for t in (transports.GLOO, transports.nccl_transport(facts)))
    assert speedup.low == pytest.approx(100 / (40 + min(60, 60 * gloo.high / nccl.low)))


def test_another_backend_is_worth_what_it_does_not_take_itself() -> None:
    facts = example_facts.gpu(
        example_facts.ddp(backend="gloo"), example_facts.world(ranks=2),
        example_facts.optimizer(parameters=25 * 10**6),
    )  # fmt: skip
    work = {"busy.tc_math": 40.0, "comm.exposed": 60.0}
    (detection,), _ = run_rules(evidence_of(facts, work), (slow_backend,))
    assert not detection.to_try
    speedup = predict_by_account(evidence_of(facts, work), detection.changes).speedup
    assert speedup is not None
    nccl_ms = 0.7 * 100e6 / transports.NVLINK.bus_bytes_per_s.mid * 1e3  # of a step of 100 ms
    assert speedup.mid == pytest.approx(100 / (40 + nccl_ms))
    assert speedup.low == pytest.approx(100 / (40 + nccl_ms / 0.7 * 2.5))


@pytest.mark.parametrize(
    ("work", "after_ms"),
    [
        ({"busy.tc_math": 20, "idle.host.python": 70, "comm.exposed": 10}, 38 + 2 * 0.03),
        ({"busy.tc_math": 80, "idle.host.python": 10, "comm.exposed": 10}, 80 + 0.7 * 2 * 0.03),
    ],
)
def test_a_process_for_each_gpu_launches_for_it_alone_and_is_not_faster_than_it(
    work: dict[str, float], after_ms: float
) -> None:
    devices = example_facts.parallel_model("data_parallel", devices=("cuda:0", "cuda:1"))
    facts = example_facts.gpu(devices, example_facts.optimizer(parameters=2 * 10**6))
    calls = (
        operator("DataParallel.forward", calls=1, host_ms=60),
        operator("Broadcast", calls=1, host_ms=5),
        operator("autograd::engine::evaluate_function: BroadcastBackward", calls=1, host_ms=10),
        operator("autograd::engine::evaluate_function: AddmmBackward0", calls=9, host_ms=20),
    )
    evidence = evidence_of(facts, work, *calls)
    (detection,), _ = run_rules(evidence, (one_process_for_gpus,))
    speedup = predict_by_account(evidence, detection.changes).speedup
    assert speedup is not None
    assert 100 / speedup.mid == pytest.approx(after_ms)  # of 100 ms; 8 ms launch the forward pass


def test_threads_of_eight_gpus_that_pass_backward_at_once_launch_for_as_long_as_each() -> None:
    devices = example_facts.parallel_model("data_parallel", devices=tuple("01234567"))
    facts = example_facts.gpu(devices, example_facts.optimizer(parameters=2 * 10**6))
    calls = (
        operator("DataParallel.forward", calls=1, host_ms=50),
        operator("Broadcast", calls=1, host_ms=5),
        operator("autograd::engine::evaluate_function: AddmmBackward0", calls=9, host_ms=320),
    )
    evidence = evidence_of(facts, {"busy.tc_math": 10, "idle.host.python": 90}, *calls)
    (detection,), _ = run_rules(evidence, (one_process_for_gpus,))
    assert detection.summary.endswith("takes 18.0 ms of each 100.0 ms step.")  # 0.8 of 40 ms stay


@pytest.mark.parametrize(
    ("device", "links", "ranks", "transport"),
    [
        ("NVIDIA H100 80GB HBM3", {}, 8, transports.NVLINK),
        ("NVIDIA H100 PCIe", {}, 8, transports.PCIE),
        ("NVIDIA A100-PG509-200", {}, 8, transports.NVLINK),
        ("NVIDIA H100 80GB HBM3", {}, 16, transports.NETWORK),
    ],
)
def test_links_of_gpus_are_known_by_their_machine(
    device: str, links: dict[str, int], ranks: int, transport: transports.Transport
) -> None:
    facts = example_facts.gpu(example_facts.world(ranks=ranks, local_ranks=8, links=links))
    facts = replace(facts, machine=replace(facts.machine, device=device))
    assert transports.nccl_transport(facts) == transport


@pytest.mark.parametrize(("links", "high"), [({"a": 10**5}, 1), ({"a": 10**5, "b": 10**5}, 2)])
def test_several_links_of_a_host_may_carry_an_exchange_together(
    links: dict[str, int], high: int
) -> None:
    facts = example_facts.gpu(example_facts.world(ranks=16, local_ranks=8, links=links))
    bus = transports.nccl_transport(facts).bus_bytes_per_s
    assert (bus.low, bus.high) == pytest.approx((0.3 * 1.25e10, high * 0.95 * 1.25e10))


def test_ranks_of_two_hosts_meet_over_a_network() -> None:
    facts = example_facts.gpu(example_facts.world(ranks=16, local_ranks=16, hosts=("a", "b")))
    assert transports.nccl_transport(facts) == transports.NETWORK


def test_what_transports_are_said_to_take_holds_where_it_was_measured() -> None:
    cases = json.loads((RESULTS / "exchange_costs.json").read_text())
    for name, case in cases.items():
        transport = transports.GLOO if name.startswith("gloo") else transports.NVLINK
        call, bus = transport.call_ns, transport.bus_bytes_per_s
        assert call.low <= 1e3 * case["alpha_us"] <= call.high
        assert bus.low <= case["bus_bytes_per_s"] <= bus.high


@pytest.mark.slow
def test_torch_leaves_it_out() -> None:
    searching = {"find_unused_parameters": True}
    settings = [searching, {**searching, "static_graph": True}, {"gradient_as_bucket_view": True}]
    command = [sys.executable, "-c", TRAINING, json.dumps(settings)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    searched, static, viewed = map(json.loads, output.splitlines())
    assert {COPY_BACK, SEARCH} <= {*searched}
    assert searched.count(REDUCE_CALL) == 2  # the other is of what was used
    assert (static.count(REDUCE_CALL), SEARCH in static) == (1, False)
    assert (viewed.count(REDUCE_CALL), COPY_BACK in viewed) == (1, False)


@pytest.mark.parametrize(("cpus", "threads", "is_shared"), CROWDS)
def test_what_gloo_hides_costs_computing_where_it_has_no_processor_of_its_own(
    cpus: int, threads: int, is_shared: bool
) -> None:
    facts = example_facts.cpu(example_facts.world(ranks=2, local_ranks=2))
    machine = replace(facts.machine, cpus=cpus, intra_op_threads=threads)
    facts = replace(facts, machine=machine)
    slowdown = transports.gloo_transport(facts).slowdown
    assert (slowdown.mid > 0.5) is is_shared
