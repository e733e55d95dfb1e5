"""Stages of making a batch that take long, where more workers do not make up for it: a table."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.page_text import fold_page
from gapless.catalogue.declare.rule import Rule, rule
from gapless.catalogue.fixes.samples.decode_by_dali import decode_by_dali, find_dali_obstacle
from gapless.catalogue.fixes.samples.decode_on_device import decode_on_device, find_obstacle
from gapless.catalogue.fixes.samples.jpeg_decoder import find_decoder_obstacle, jpeg_decoder
from gapless.catalogue.fixes.samples.picture_cache import find_picture_obstacle, picture_cache
from gapless.catalogue.fixes.samples.recycled_collate import recycled_collate
from gapless.catalogue.fixes.samples.reduced_decoding import (
    find_reduction_obstacle,
    reduced_decoding,
)
from gapless.catalogue.fixes.samples.sample_cache import request_sample_cache
from gapless.catalogue.fixes.samples.uint8_by_hand import find_float_obstacle, uint8_by_hand
from gapless.catalogue.fixes.samples.uint8_to_device import uint8_to_device
from gapless.catalogue.queries.input.fresh_memory import asks_for_memory
from gapless.catalogue.queries.input.loaders import Loading
from gapless.catalogue.queries.input.stages import VERBS, detect_slow_stage
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection


class _Stage(Struct, frozen=True):
    """A row: what a stage is, why it takes long, what to do about it; the texts of its page."""

    code: str
    name: str  # of the stage, in ``model.leaf.DATA_STAGES``
    beside: str  # the stage that takes the rest of its example
    example: str
    subject: str  # "tokenising that takes long"
    why: str
    measured: str
    by_hand: str
    by_hand_on_device: str = ""  # what a device can do of it


_STAGES: Final = (
    _Stage(
        "G107",
        "decode",
        beside="collate",
        example="Photographs at full size, two processors",
        subject="samples that take long to decode",
        why=(
            "A full-size JPEG costs several milliseconds on a processor, for each sample and "
            "epoch. If all processors decode and the training still waits, only less decoding "
            "helps."
        ),
        measured=(
            "The recorder times the decoders that it knows (PIL, OpenCV, torchvision, simplejpeg,"
            " audio and video readers) inside each fetch."
        ),
        by_hand=(
            "Store images at the size that training uses, or decoded (uint8 arrays on disk); or "
            "let the decoder scale while it decodes (PIL's Image.draft, reduced decoding of OpenCV "
            "and TurboJPEG)."
        ),
        by_hand_on_device=("Or decode on the GPU (torchvision.io.decode_jpeg with device='cuda')."),
    ),
    _Stage(
        "G108",
        "augment",
        beside="decode",
        example="Blur and colour on every picture, two processors",
        subject="transforms that take long",
        why=(
            "Random crops, resizing, blur and colour changes run on the CPU for each sample and "
            "epoch. If all processors are busy with them and the training still waits, only "
            "cheaper transforms help."
        ),
        measured=(
            "The recorder times the calls of transforms (torchvision, albumentations and similar "
            "libraries) inside each fetch."
        ),
        by_hand=(
            "Do what is not random once, and keep or store it; do what is the same for all samples "
            "(normalising, conversion to floats) on whole batches; crop before resizing; take "
            "cheaper interpolation."
        ),
        by_hand_on_device=(
            "On the GPU, on whole batches: what can be done there (normalising, flips, colour: "
            "torchvision v2, kornia), on samples that stay uint8 until they are there."
        ),
    ),
    _Stage(
        "G109",
        "tokenise",
        beside="collate",
        example="Text that is tokenised again in each epoch, two processors",
        subject="tokenising that takes long",
        why=(
            "The same text gives the same tokens in each epoch, and a tokenizer in Python costs "
            "milliseconds a sample. If all processors are busy with it and the training still "
            "waits, it should be done once, beforehand."
        ),
        measured=(
            "The recorder times the calls of tokenizers (transformers, tokenizers, sentencepiece)"
            " inside each fetch."
        ),
        by_hand=(
            "Tokenise once, before training, and store the tokens (datasets.map, or an array on "
            "disk that is read by memmap); or take a fast tokenizer (use_fast=True) on whole "
            "batches."
        ),
    ),
    _Stage(
        "G110",
        "collate",
        beside="decode",
        example="Lists of numbers become tensors one by one, two processors",
        subject="a collate function that is slow",
        why=(
            "Collating copies each sample once. It takes long if it loops over elements in "
            "Python, pads by hand, or turns lists and arrays into tensors one by one; and if "
            "every batch asks the system for new shared memory."
        ),
        measured=(
            "The recorder times the collate function of each fetch. That of torch's own is a cause "
            "only where a step waits a tenth of its time for it: less is what batches cost anyone."
        ),
        by_hand=(
            "Let samples be tensors or NumPy arrays of one type and stack them by one call "
            "(torch.stack, numpy.stack, pad_sequence); fetch whole batches by __getitems__; keep "
            "finished batches where samples are objects such as graphs; and reuse the memory of "
            "batches where they are large."
        ),
    ),
)
_PAGE: Final = """
Recognise {subject}, where more workers do not make up for it.

## Why it costs time
{why}

## How it is measured
{measured}

A stage is a cause if a step without it would be shorter than one with as many workers as the
processors can feed. Both are lower bounds: the longest of the work between batches plus a
hand-over, the time of the workers, and that of all processors. Of the stage, the time to write
the batch once remains.

If the training computes on the same processors and makes its batches itself, workers gain less
than that bound: there the stage is also a cause, unless workers would be a fifth faster at best.
"""

_FIGURES: Final = """
two_workers = loader(num_workers=2, prefetch_factor=2)
few_processors = gpu(two_workers, machine(cpus=2))
workers = example_workers(2, {{"{stage.name}": 5.0, "{stage.beside}": 0.5}})
# {stage.example}
> {verb} takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step could take 26.7 ms,
  with 2 workers 182.6 ms at best.
few_processors, example_use(two_workers, {{"{stage.name}": 90.0}}, workers)
busy.math 10.0, idle.data.{stage.name} 90.0
# More workers would keep up
gpu(two_workers), example_use(two_workers, {{"{stage.name}": 40.0}}, workers)
busy.math 60.0, idle.data.{stage.name} 40.0
# Nobody waits for it
few_processors, example_use(two_workers, {{"hand-over": 0.2}}, workers)
busy.math 99.8, idle.data.hand-over 0.2
"""
_COLLATE_NAMES: Final = """
usual = loader(num_workers=2, collate_name="torch.utils.data._utils.collate.default_collate")
"""
_COLLATE_FIGURE: Final = """
# torch's own function, in little of a step
gpu(usual, machine(cpus=2)), example_use(usual, {"collate": 8.0}, workers)
busy.math 92.0, idle.data.collate 8.0
"""


def _declare(stage: _Stage) -> Rule:
    figures = _FIGURES.format(stage=stage, verb=VERBS[stage.name])
    if stage.name == "collate":
        figures = _COLLATE_NAMES + figures.lstrip() + _COLLATE_FIGURE
    texts = {"subject": stage.subject, "why": stage.why, "measured": stage.measured}
    page = fold_page(_PAGE.format(**texts))

    @rule(stage.code, f"{stage.name}-bound", figures=figures, doc=page)
    def stage_bound(evidence: Evidence, loader: Loader) -> Detection | None:
        on_device = stage.by_hand_on_device if evidence.on_device else ""
        return detect_slow_stage(
            stage_bound,
            evidence,
            loader,
            words=(stage.name, f"{stage.by_hand} {on_device}".strip()),
            helps=_HELPS.get(stage.name),
        )

    return stage_bound


def _request_recycling(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fix for batches in new memory, where the kernel's counts show that they are."""
    return (loading.request(recycled_collate),) if asks_for_memory(loading) else ()


def _request_bytes(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fix for floats that are made of bytes at the end, where there is a device."""
    loader = loading.loader
    if loading.facts.machine.device is None:
        return ()
    if loader.to_floats:
        return (loading.request(uint8_to_device),)
    return (loading.request(uint8_by_hand),) if find_float_obstacle(loader) is None else ()


def _request_lighter_batches(loading: Loading) -> tuple[FixRequest, ...]:
    return (*_request_recycling(loading), *_request_bytes(loading))


def _request_device_decoding(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fix for pictures that are decoded, and then only cropped, resized and flipped."""
    is_on_device = loading.facts.machine.device is not None
    is_possible = is_on_device and find_obstacle(loading.loader) is None
    return (loading.request(decode_on_device),) if is_possible else ()


def _request_decoding(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fixes for pictures: decoded elsewhere, smaller, or by another library."""
    loader = loading.loader
    is_swappable = find_decoder_obstacle(loader) is None
    swapped = (loading.request(jpeg_decoder),) if is_swappable else ()
    if find_dali_obstacle(loader) is None:
        swapped = (*swapped, loading.request(decode_by_dali))
    caches = request_sample_cache(loading) or _request_picture_cache(loading)
    return (*_request_device_decoding(loading), *_request_reduction(loading), *swapped, *caches)


def _request_reduction(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fix for pictures that are made smaller: there is less of them to shrink, too."""
    loader = loading.loader
    is_resized = loader.pipeline is not None or loader.resizes
    is_possible = is_resized and find_reduction_obstacle(loader) is None
    return (loading.request(reduced_decoding),) if is_possible else ()


def _request_picture_cache(loading: Loading) -> tuple[FixRequest, ...]:
    loader = loading.loader
    is_possible = loader.iterations > 1 and find_picture_obstacle(loader) is None
    return (loading.request(picture_cache),) if is_possible else ()


def _request_less_augmenting(loading: Loading) -> tuple[FixRequest, ...]:
    return (
        *_request_bytes(loading),
        *_request_device_decoding(loading),
        *_request_reduction(loading),
        *request_sample_cache(loading),
    )


_HELPS: Final = {
    "collate": _request_lighter_batches,
    "augment": _request_less_augmenting,
    "decode": _request_decoding,
    "tokenise": request_sample_cache,
}


SLOW_STAGES: Final = tuple(_declare(stage) for stage in _STAGES)
