"""What arguments of DistributedDataParallel leave out, for replay, and that torch does so."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import EFFECTS
from gapless.catalogue.effects.reducer import COPY_BACK, SEARCH
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.queries.ranks.collectives import REDUCE_CALL
from gapless.model.change import Change, Delay, HostChange, Omit, Scale
from gapless.model.estimate import Estimate
from gapless.model.tables import CollectiveRow

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


@pytest.mark.parametrize(("sizes", "kept"), [((1, 8), 0.5), ((8, 8), 0.75)])
def test_half_of_the_bytes_take_half_as_long_and_the_hook_its_own_time(
    sizes: tuple[int, int], kept: float
) -> None:
    rows = tuple(
        CollectiveRow("allreduce", None, 2, 1, size << 20, 1000 * size, None, 1000 * size, 0)
        for size in sizes
    )
    facts = example_facts.gpu(example_facts.ddp(backend="nccl"), example_facts.world(ranks=2))
    evidence = evidence_of(facts, WORK, *PARTS)
    tables = replace(evidence.study.tables, collectives=rows)
    evidence = replace(evidence, study=replace(evidence.study, tables=tables))
    changes = EFFECTS["ddp-bf16"](evidence, listing.propose_named("ddp-bf16", facts)[0])
    assert changes is not None
    transfers, hook = changes
    assert isinstance(transfers, Scale)
    assert transfers.factor.mid == pytest.approx(kept)
    assert hook == Delay(4 * 300_000)


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
