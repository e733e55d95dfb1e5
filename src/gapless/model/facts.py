"""Facts: what was true of a run, as far as rules and fixes ask for it.

Each is identified; of loaders, optimizers and models there may be several. ``None`` is what was
not observed.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from gapless.model.edit import Location
from gapless.model.recording import Exchange

NOT_COUNTED: Final = 1  # stands for the workers of a loader in a trace: there are some


class PaddingStats(Struct, frozen=True):
    """How far the rows of a loader's batches are filled, of a few batches that were looked at.

    Shares of the length, of a batch's mean row and of its longest; the rest is padding.
    """

    batches: int
    rows: int  # of a batch, median
    length: int  # of a row, median
    lengths: tuple[int, ...]  # that were seen, in windows above all; ascending
    filled: float
    longest: float
    square: float  # mean square of the filled share: what grows with the square of the length
    declared: bool  # lengths or masks in the batches say so too
    varies: bool  # batches are not all as long
    kind: str  # "int", "float"
    dimensions: int  # of the tensor


class Loader(Struct, frozen=True):
    """A DataLoader, its settings, and what was seen of how it is used."""

    id: int
    location: Location | None
    batch_size: int | None
    num_workers: int  # of a loader with workers in a trace: ``NOT_COUNTED``
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    in_order: bool | None
    shuffle: bool
    iterable: bool
    dataset: str  # class
    length: int | None  # of the data set, in samples
    start_method: str | None
    trains: bool | None  # most of its batches were asked for between training steps
    iterations: int
    batches: int
    waited_ns: int  # in all of next(loader)
    random: bool | None  # a fetch advanced a random generator
    blocked: float | None  # share of a fetch off the processor, not waiting for one: reads, sleeps
    batch_bytes: int | None
    asks_worker_info: bool | None  # an iterable's ``__iter__`` names get_worker_info; None: unknown
    cuda_in_dataset: bool | None  # its code or state names CUDA
    picklable: bool | None  # the data set; None: not tried
    pinnable: bool | None  # batches are tensors, numbers, or containers of these
    padding: PaddingStats | None = None  # None: batches have no length, or were not looked at
    sample: Location | None = None  # the user's function that makes a sample
    collate: Location | None = None  # the user's function that puts samples together
    stands_in: str | None = None  # the class of what is no DataLoader, iterated at ``location``
    sampler: Location | None = None  # the user's function that chooses samples
    collate_name: str | None = None  # qualified, of the function that puts samples together
    pipeline: tuple[str, ...] | None = None  # classes of torchvision transforms, in their order
    to_floats: int = 0  # how many at its end only make floats of bytes
    by_hand: bool | None = None  # its code divides by 255; None: it was not seen
    resizes: bool = False  # its code makes pictures another size
    texts: str | None = None  # the data set's list of texts or rows, one for each sample
    files: str | None = None  # the data set's list of files, one for each sample
    decoders: tuple[str, ...] | None = None  # of JPEG, beside Pillow; None: it was not seen
    byte_pictures: bool = False  # batches hold pictures as bytes: batch, channel, row, column


class Optimizer(Struct, frozen=True):
    """An optimizer."""

    id: int
    location: Location | None
    name: str  # qualified class, "torch.optim.adamw.AdamW"
    foreach: bool | None
    fused: bool | None
    tensors: int | None
    calls: int
    device: str | None  # of its parameters: "cuda", "cpu"
    parameters: int | None = None  # numbers in its tensors
    ungraded: int | None = None  # tensors that ask for a gradient and got none for its first step
    ungraded_parameters: int | None = None  # numbers in these


class Model(Struct, frozen=True):
    """A module that owns the parameters of an optimizer."""

    id: int
    location: Location | None
    name: str
    parameters: int | None
    dtype: str | None
    device: str | None
    channels_last: bool | None
    convolutions: int | None  # modules with 4-D weights
    compiled: bool  # by model.compile(), or by torch.compile(model) before its first step
    checkpoints: bool | None  # activation checkpointing was called


class UntrainedModule(Struct, frozen=True):
    """A module whose parameters get gradients, though no optimizer holds them."""

    location: Location | None
    name: str  # qualified class
    tensors: int  # parameters that had such a gradient
    parameters: int  # numbers in these


class Evaluation(Struct, frozen=True):
    """Evaluations of a model, from where it is set to evaluate to where it trains again."""

    location: Location | None  # where it was set to evaluate
    passes: int  # of which the following is known
    graphed: int  # in which graphs for a backward pass were made
    nodes: int  # of those graphs, all passes together
    tensors: int  # parameters of the model
    environment: str | None = None  # the package of environments that was loaded meanwhile


class Parallel(Struct, frozen=True):
    """How a model is spread: DDP, FSDP, DataParallel."""

    kind: str  # "ddp" | "fsdp" | "data_parallel"
    location: Location | None
    settings: Mapping[str, object]


class Precision(Struct, frozen=True):
    """Settings of torch that decide how, and how exactly, it computes (names as recorded)."""

    settings: Mapping[str, object]
    location: Location | None = None  # autocast was first entered there


class Machine(Struct, frozen=True):
    """The processors and devices that the run had."""

    cpus: int | None  # it may use
    intra_op_threads: int | None
    device: str | None  # "NVIDIA H200"; None: none used
    capability: tuple[int, int] | None
    devices: int | None
    memory_bytes: int | None  # available to it
    shm_bytes: int | None  # free in /dev/shm
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cpu_list: str | None = None  # which those are: "0-15"
    device_cpus: str | None = None  # the processors of the device's NUMA node
    bf16: bool | None = None  # torch's products in bf16 use instructions of the processors
    cores: int | None = None  # it may use: two processors may be threads of one


class World(Struct, frozen=True):
    """The processes of the run, and the versions that they ran."""

    ranks: int
    torch: tuple[int, int] | None
    python: tuple[int, int] | None
    micro_batches: float | None  # backward passes a step of the optimizer; 1: no accumulation
    steps: int
    step_ns: int | None  # un-profiled, median
    local_ranks: int | None = None  # processes of one host
    hosts: tuple[str, ...] = ()  # of the training processes that are here, by rank
    links: Mapping[str, int] = field(default_factory=dict[str, int])  # Mbit/s, slowest seen
    steps_are_passes: bool = False  # each of them ends a step: the optimizer's last too long
    host_links: Mapping[str, Mapping[str, int]] = field(  # by host; Mbit/s
        default_factory=dict[str, Mapping[str, int]]
    )
    exchanges: tuple[Exchange, ...] = ()  # between its machines; empty: not observed

    @property
    def passes_a_step(self) -> float | None:
        """Backward passes of what counts as a step."""
        return 1.0 if self.steps_are_passes else self.micro_batches


class Repeat(Struct, frozen=True):
    """A module that steps call once more without gradients: in vain, or with the same tensors."""

    location: Location | None
    kind: str  # the module's class
    calls: float  # a step
    is_left: bool = False  # nothing takes the result


class BackgroundThread(Struct, frozen=True):
    """Another thread of the training process that was on a processor for a part of the time."""

    location: Location | None  # a line of the user's at which it stood most often
    name: str
    cpu_share: float  # of the time, on a processor
    training_cpu_share: float  # likewise the training thread meanwhile


class Facts(Struct, frozen=True):
    """All of them."""

    world: World
    machine: Machine
    precision: Precision | None = None
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    models: tuple[Model, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    background_threads: tuple[BackgroundThread, ...] = ()
    parallel: tuple[Parallel, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict[str, int])  # empty_cache, synchronize …
    evaluations: tuple[Evaluation, ...] = ()
    untrained: tuple[UntrainedModule, ...] = ()
    inferred: bool = False  # they follow from a trace: no recorder noted them

    def find_loader(self, number: int) -> Loader | None:
        """Return the loader of an id; ``None``: none was recorded."""
        return next((loader for loader in self.loaders if loader.id == number), None)

    def find_loader_at(self, location: Location | None) -> Loader | None:
        """Return the first loader that is made at a line; ``None``: none was recorded there."""
        return next((loader for loader in self.loaders if loader.location == location), None)
