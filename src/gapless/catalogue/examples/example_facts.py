"""Facts of an ordinary training; cases of fixes are made from them by a change or two."""

from typing import Any, Final

from msgspec.structs import replace

from gapless.model.edit import Location
from gapless.model.facts import (
    BackgroundThread,
    Evaluation,
    Facts,
    Loader,
    Machine,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Repeat,
    UntrainedModule,
    World,
)
from gapless.model.recording import Exchange

LOADER_LINE: Final = Location("train.py", 41, "main")
OPTIMIZER_LINE: Final = Location("train.py", 52, "main")
MODEL_LINE: Final = Location("train.py", 48, "main")
EVALUATION_LINE: Final = Location("train.py", 90, "evaluate")

_GIB: Final = 1 << 30
_GPU: Final = Machine(
    cpus=16,
    intra_op_threads=8,
    device="NVIDIA H200",
    capability=(9, 0),
    devices=1,
    memory_bytes=120 * _GIB,
    shm_bytes=64 * _GIB,
    cpu_list="0-15",
)
_CPU: Final = Machine(
    cpus=2,
    intra_op_threads=2,
    device=None,
    capability=None,
    devices=None,
    memory_bytes=24 * _GIB,
    shm_bytes=12 * _GIB,
    cpu_list="0-1",
)
_LOADER: Final = Loader(
    id=0,
    location=LOADER_LINE,
    batch_size=64,
    num_workers=0,
    prefetch_factor=None,
    pin_memory=False,
    persistent_workers=False,
    in_order=True,
    shuffle=True,
    iterable=False,
    dataset="__main__.Images",
    length=10_000,
    start_method="fork",
    trains=True,
    iterations=2,
    batches=312,
    waited_ns=30_000_000_000,
    random=True,
    blocked=0.05,
    batch_bytes=38 << 20,
    asks_worker_info=None,
    cuda_in_dataset=False,
    picklable=True,
    pinnable=True,
)
_OPTIMIZER: Final = Optimizer(
    id=0,
    location=OPTIMIZER_LINE,
    name="torch.optim.adamw.AdamW",
    foreach=None,
    fused=None,
    tensors=161,
    calls=312,
    device="cuda",
)
_MODEL: Final = Model(
    id=0,
    location=MODEL_LINE,
    name="torchvision.models.resnet.ResNet",
    parameters=25_557_032,
    dtype="torch.float32",
    device="cuda:0",
    channels_last=False,
    convolutions=53,
    compiled=False,
    checkpoints=False,
)
_SETTINGS: Final = {
    "matmul_precision": "highest",
    "allow_tf32_matmul": False,
    "allow_tf32_conv": True,
    "autocast": None,
    "scaler": False,
    "default_dtype": "torch.float32",
    "cudnn_enabled": True,
    "mkldnn_enabled": True,
    "cudnn_benchmark": False,
    "cudnn_deterministic": False,
    "deterministic": False,
    "anomaly": False,
    "launch_blocking": False,
    "sync_debug_mode": 0,
    "flash_sdp": True,
    "efficient_sdp": True,
    "math_sdp": True,
}
_WORLD: Final = World(
    ranks=1, torch=(2, 11), python=(3, 12), micro_batches=1.0, steps=312, step_ns=100_000_000
)


def loader(**changes: Any) -> Loader:  # noqa: ANN401 - any field
    """Return a loader of images in the training process, with changes."""
    return replace(_LOADER, **changes)


def worker_loader(**changes: Any) -> Loader:  # noqa: ANN401
    """Return the same loader with eight workers, with changes."""
    return replace(_LOADER, num_workers=8, prefetch_factor=2, **changes)


def optimizer(**changes: Any) -> Optimizer:  # noqa: ANN401
    """Return an AdamW on the device, with changes."""
    return replace(_OPTIMIZER, **changes)


def model(**changes: Any) -> Model:  # noqa: ANN401
    """Return a ResNet in fp32 on the device, with changes."""
    return replace(_MODEL, **changes)


def ddp(**changes: Any) -> Parallel:  # noqa: ANN401
    """Return a model wrapped in DDP with torch's defaults, with changes."""
    defaults = {
        "bucket_cap_mb": 25.0,
        "find_unused_parameters": False,
        "gradient_as_bucket_view": False,
        "static_graph": False,
    }
    return Parallel("ddp", MODEL_LINE, defaults | changes)


def parallel_model(kind: str, **settings: object) -> Parallel:
    """Return a model that is parallelised in another way."""
    return Parallel(kind, MODEL_LINE, settings)


def evaluation(**changes: Any) -> Evaluation:  # noqa: ANN401
    """Return eight evaluations of 20 batches without autograd, with changes."""
    return replace(Evaluation(EVALUATION_LINE, 8, 0, 0, 161), **changes)


def untrained(**changes: Any) -> UntrainedModule:  # noqa: ANN401
    """Return a teacher of 60 tensors that no optimizer updates, with changes."""
    return replace(UntrainedModule(MODEL_LINE, "__main__.Teacher", 60, 24_000_000), **changes)


def precision(**changes: Any) -> Precision:  # noqa: ANN401
    """Return torch's default settings, with changes."""
    return Precision(_SETTINGS | changes)


def world(**changes: Any) -> World:  # noqa: ANN401
    """Return one process with 312 steps of 100 ms, with changes."""
    return replace(_WORLD, **changes)


def exchange(host: str, peer: str, mb_per_s: float, busy_share: float, **changes: Any) -> Exchange:  # noqa: ANN401
    """Return what one host sends to another through eth0, with changes."""
    return replace(Exchange(host, peer, "eth0", mb_per_s * 1e6, busy_share), **changes)


def machine(**changes: Any) -> Machine:  # noqa: ANN401
    """Return a machine with one GPU and 16 processors, with changes."""
    return replace(_GPU, **changes)


def gpu(*parts: Any, **calls: int) -> Facts:  # noqa: ANN401
    """Return the facts of a training on a GPU, with these parts in place of the default ones."""
    return _replace_parts(
        Facts(_WORLD, _GPU, precision(), (_LOADER,), (_OPTIMIZER,), (_MODEL,)), parts, calls
    )


def cpu(*parts: Any, **calls: int) -> Facts:  # noqa: ANN401
    """Return the facts of a training on two processors, with these parts in place of defaults."""
    facts = Facts(
        _WORLD, _CPU, precision(), (_LOADER,), (optimizer(device="cpu"),), (model(device="cpu"),)
    )
    return _replace_parts(facts, parts, calls)


def bare_facts(**calls: int) -> Facts:
    """Return the facts of a run of which hardly anything was observed."""
    machine = Machine(None, None, None, None, None, None, None)
    return Facts(World(1, None, None, None, 0, None), machine, calls=calls)


def without_loaders(facts: Facts) -> Facts:
    """Return the facts without any DataLoader."""
    return replace(facts, loaders=())


def _replace_parts(facts: Facts, parts: tuple[Any, ...], calls: dict[str, int]) -> Facts:
    for kind, name in (
        (Loader, "loaders"),
        (Optimizer, "optimizers"),
        (Model, "models"),
        (Repeat, "repeats"),
        (BackgroundThread, "background_threads"),
        (Parallel, "parallel"),
        (Evaluation, "evaluations"),
        (UntrainedModule, "untrained"),
    ):
        matches = tuple(fact for fact in parts if isinstance(fact, kind))
        facts = replace(facts, **{name: matches}) if matches else facts
    for kind, name in ((World, "world"), (Machine, "machine"), (Precision, "precision")):
        for fact in (candidate for candidate in parts if isinstance(candidate, kind)):
            facts = replace(facts, **{name: fact})
    return replace(facts, calls=calls)
