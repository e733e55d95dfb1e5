"""``--set``: what a text means as an edit, and what it may change of a run."""

import re

import pytest

from gapless.catalogue.declare import custom_settings, parsing
from gapless.catalogue.declare.fix import changes_nothing, describe_edit, describe_proposal
from gapless.catalogue.examples import example_facts
from gapless.errors import UsageError
from gapless.model.edit import (
    Applicability,
    Edit,
    Location,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
)

LOADER = "torch.utils.data.DataLoader"
DDP = "torch.nn.parallel.DistributedDataParallel"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("DataLoader.num_workers=8", SetArgument(LOADER, "num_workers", 8)),
        (
            "DataLoader@src/train.py:41.num_workers=8",
            SetArgument(LOADER, "num_workers", 8, Location("src/train.py", 41)),
        ),
        ("torch.utils.data.DataLoader.timeout=1.5", SetArgument(LOADER, "timeout", 1.5)),
        ("DataLoader.prefetch_factor=None", SetArgument(LOADER, "prefetch_factor", None)),
        ("SGD.fused=True", SetArgument("torch.optim.SGD", "fused", value=True)),
        (
            "Optimizer.zero_grad.set_to_none=true",
            SetArgument("torch.optim.Optimizer.zero_grad", "set_to_none", value=True),
        ),
        (
            "DistributedDataParallel.bucket_cap_mb=50",
            SetArgument(DDP, "bucket_cap_mb", 50),
        ),
        ("DDP.static_graph=True", SetArgument(DDP, "static_graph", value=True)),
        (
            "torch.nn.functional.dropout(p)=0.1",
            SetArgument("torch.nn.functional.dropout", "p", 0.1),
        ),
        ("models.vit.Attention.heads=4", SetArgument("models.vit.Attention", "heads", 4)),
        (
            "torch.backends.cudnn.benchmark=True",
            SetGlobal("torch.backends.cudnn.benchmark", value=True),
        ),
        ("cudnn.benchmark=True", SetGlobal("torch.backends.cudnn.benchmark", value=True)),
        ("torch.set_num_threads=1", SetGlobal("torch.set_num_threads", 1)),
        ("set_num_threads=1", SetGlobal("torch.set_num_threads", 1)),
        (
            "torch.set_float32_matmul_precision='high'",
            SetGlobal("torch.set_float32_matmul_precision", "high"),
        ),
        ("settings.CACHE=7", SetGlobal("settings.CACHE", 7)),
        ("env.OMP_NUM_THREADS=1", SetEnv("OMP_NUM_THREADS", "1")),
        ("env.A=b=c", SetEnv("A", "b=c")),
        ("env.CUDA_LAUNCH_BLOCKING=", SetEnv("CUDA_LAUNCH_BLOCKING", None)),
        ("skip.torch.cuda.empty_cache", Skip("torch.cuda.empty_cache")),
        ("skip.torch.save=10", Skip("torch.save", 10)),
        (
            "skip.torch.cuda.synchronize@train.py:50",
            Skip("torch.cuda.synchronize", None, Location("train.py", 50)),
        ),
    ],
)
def test_a_text_means_an_edit(text: str, edit: Edit) -> None:
    assert parsing.parse_setting(text) == edit


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("DataLoader.num_worker=8", "DataLoader has no argument 'num_worker'.*mean num_workers"),
        ("DataLoader.x=8", "has no argument 'x' that could be set: num_workers, prefetch_factor"),
        ("Dataloader.num_workers=8", "Dataloader is not a class.*did you mean DataLoader"),
        ("Adom.fused=True", "Adom is not a class that is known; did you mean Adam"),
        ("DataLoader.num_workers=many", "a whole number from 0 up is meant"),
        ("DataLoader.num_workers=True", "a whole number from 0 up is meant"),
        ("DataLoader.num_workers=-1", "--set DataLoader.num_workers=-1: a whole number"),
        ("DataLoader.prefetch_factor=0", "a whole number from 1 up is meant"),
        ("DataLoader.pin_memory=yes", "True or False is meant"),
        ("torch.set_num_threads=0", "a whole number from 1 up is meant"),
        ("DataLoader.sampler=", "nothing stands behind ="),
        ("dataloader.num_workers=8", "did you mean DataLoader.num_workers"),
        ("DataLoader.num_workers", "there is no =VALUE; forms are"),
        ("cudnn.benchmrk=True", "no setting cudnn.benchmrk; did you mean cudnn.benchmark"),
        ("torch.backends.cudnn.benchmrk=1", "did you mean torch.backends.cudnn.benchmark"),
        ("allow_tf32=True", "may be torch.backends.cuda.matmul.allow_tf32 or torch.*cudnn"),
        ("quick=1", "there is no setting quick; forms are"),
        ("DataLoader@train.py.num_workers=8", "a line is meant so: DataLoader@train.py:41"),
        ("torch.set_num_threads@train.py:4=8", "is no argument, so it has no line"),
        ("env.1=2", "'1' is no name of a variable"),
        ("env.GAPLESS_SPOOL=x", "that variable is gapless's own"),
        ("skip.torch.save=0", "only every n-th call is made"),
        ("a b=3", "'a b' is no name"),
    ],
)
def test_a_mistake_is_told_with_what_was_meant(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parsing.parse_setting(text)


def test_classes_of_the_run_are_known_by_their_short_names() -> None:
    facts = example_facts.gpu(example_facts.optimizer(name="lion_pytorch.lion.Lion"))
    edit = parsing.parse_setting("Lion.foreach=True", facts)
    assert edit == SetArgument("lion_pytorch.lion.Lion", "foreach", value=True)


def test_a_class_that_nobody_knows_is_a_mistake_only_where_the_run_is_known() -> None:
    with pytest.raises(UsageError, match="Lion is not a class that is known: give its qualified"):
        parsing.parse_setting("Lion.fused=True", example_facts.gpu())
    assert parsing.parse_setting("Lion.fused=True") == SetArgument("Lion", "fused", value=True)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("torch.utils.data.dataloader.DataLoader.num_workers=8", LOADER),
        ("torch.optim.adamw.AdamW.fused=True", "torch.optim.AdamW"),
        ("torch.optim.optimizer.Optimizer.zero_grad.x=1", "torch.optim.Optimizer.zero_grad"),
    ],
)
def test_a_class_is_the_same_by_the_name_of_its_module(text: str, target: str) -> None:
    edit = parsing.parse_setting(text)
    assert isinstance(edit, SetArgument)
    assert edit.target == target


@pytest.mark.parametrize(
    "text",
    [
        "torch.utils.data.DataLoader@train.py:41.num_workers=8",
        "torch.nn.functional.dropout(p)=0.1",
        "torch.optim.Optimizer.zero_grad.set_to_none=True",
        "skip.torch.save=10",
        "env.OMP_NUM_THREADS=1",
    ],
)
def test_an_edit_is_described_as_it_may_be_set(text: str) -> None:
    assert describe_edit(parsing.parse_setting(text)) == text


def describe_setting(text: str, facts: example_facts.Facts, *, override: bool = False) -> str:
    return describe_proposal(custom_settings.propose_setting(text, facts, override=override))


def test_what_a_fix_would_do_is_judged_as_the_fix_does() -> None:
    proposal = custom_settings.propose_setting("DataLoader.num_workers=8", example_facts.gpu())
    assert proposal.applicability == Applicability.EQUIVALENT
    assert proposal.edits == (SetArgument(LOADER, "num_workers", 8),)
    assert proposal.risk == "each worker draws from a random stream of its own"
    assert proposal.summary == "torch.utils.data.DataLoader.num_workers=8"
    assert proposal.fix == "DataLoader.num_workers=8"


def test_a_trap_of_any_loader_that_is_meant_refuses_it() -> None:
    stream = example_facts.loader(
        id=1,
        location=example_facts.OPTIMIZER_LINE,
        iterable=True,
        asks_worker_info=False,
        trains=False,
    )
    facts = example_facts.gpu(example_facts.loader(), stream)
    assert re.match(
        "refused: .*never asks get_worker_info", describe_setting("DataLoader.num_workers=4", facts)
    )
    assert describe_setting("DataLoader@train.py:41.num_workers=4", facts).startswith(
        "equivalent: "
    )


def test_a_line_is_found_as_the_run_recorded_it() -> None:
    location = Location("/project/train.py", 41, "main")
    facts = example_facts.gpu(example_facts.loader(location=location))
    proposal = custom_settings.propose_setting("DataLoader@train.py:41.num_workers=4", facts)
    assert proposal.edits == (SetArgument(LOADER, "num_workers", 4, location),)
    with pytest.raises(UsageError, match=r"made at train\.py:40: .*train\.py:41"):
        custom_settings.propose_setting("DataLoader@train.py:40.num_workers=4", facts)


def test_no_workers_need_no_prefetching() -> None:
    proposal = custom_settings.propose_setting(
        "DataLoader.num_workers=0", example_facts.gpu(example_facts.worker_loader())
    )
    assert [
        (edit.name, edit.value) for edit in proposal.edits if isinstance(edit, SetArgument)
    ] == [
        ("num_workers", 0),
        ("prefetch_factor", None),
        ("persistent_workers", False),
    ]


def test_what_is_so_already_changes_nothing() -> None:
    proposal = custom_settings.propose_setting(
        "DataLoader.num_workers=8", example_facts.gpu(example_facts.worker_loader())
    )
    assert changes_nothing(proposal)
    assert proposal.summary == "num_workers is already 8 at train.py:41"


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader.shuffle=False",
        "DataLoader.batch_size=128",
        "AdamW.lr=0.1",
        "torch.use_deterministic_algorithms=False",
        "torch.autograd.set_detect_anomaly=False",
    ],
)
def test_what_carries_meaning_needs_to_be_overridden(text: str) -> None:
    facts = example_facts.gpu()
    assert describe_setting(text, facts).startswith("refused: ")
    assert "--override" in describe_setting(text, facts)
    proposal = custom_settings.propose_setting(text, facts, override=True)
    assert proposal.applicability in {Applicability.MANUAL, Applicability.RISKY}
    assert len(proposal.edits) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AdamW.fused=True", "equivalent: "),
        ("SGD.fused=True", "refused: no SGD was seen: the run's optimizer is AdamW"),
        ("torch.optim.adamw.AdamW.lr=1", "refused: lr carries meaning"),
        ("torch.manual_seed=3", "refused: torch.manual_seed carries meaning"),
        ("Optimizer.zero_grad.set_to_none=True", "risky: "),
        ("DDP.bucket_cap_mb=50", "risky: "),
        ("cudnn.benchmark=True", "equivalent: "),
        ("cudnn.benchmark=False", "risky: "),
        ("torch.set_num_threads=1", "equivalent: "),
        ("torch.set_num_threads=8", "nothing to change: intra-op threads are already 8"),
        ("env.OMP_NUM_THREADS=1", "equivalent: "),
        ("env.OTHER=1", "risky: env.OTHER=1"),
        ("skip.torch.cuda.empty_cache", "same: skip.torch.cuda.empty_cache"),
        ("skip.torch.cuda.empty_cache=3", "risky: skip.torch.cuda.empty_cache=3"),
        ("DataLoader.timeout=3", "risky: "),
        ("DataLoader.pin_memory=False", "risky: "),
    ],
)
def test_each_setting_has_its_class(text: str, expected: str) -> None:
    assert describe_setting(text, example_facts.gpu()).startswith(expected)
