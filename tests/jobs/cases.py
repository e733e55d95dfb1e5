"""Trainings of several ranks with one fault each, and sound ones, whose gains are measured.

What must be named of each is written here, from the titles of the causes: which cause, and where
one rank makes the others wait, that rank, and the function it is in then.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tests.zoo import menus as m
from tests.zoo.case import FAULT, HEALTHY, Case
from tests.zoo.menus import WRONG, Choice

FAMILY: Final = "jobs"
DEVICES: Final = {"c": "cpu", "g": "cuda"}
_DEEP: Final = {"wide": 128, "layers": 10, "batch": 64}
_BUCKETS: Final = Choice("bucket-5", WRONG, (m.argument(m.DDP, "bucket_cap_mb", 5),))
_IMAGES: Final = {"model": "images", "wide": 256, "layers": 4, "batch": 32, "at_once": True}
_LARGE: Final = {"wide": 2048, "layers": 4, "batch": 8, "count": 512}
_GPU: Final = {"wide": 4096, "layers": 6, "batch": 256, "count": 2048, "resident": True}
_HALF: Final = {**_GPU, "batch": 4096, "count": 16384, "half": True}  # nothing is in full precision
_LOADED: Final = {**_GPU, "batch": 64, "resident": False, "half": True}
_SMALLER_BUCKETS: Final = m.named_fix(
    "ddp-buckets=5", m.REMEDY, m.argument(m.DDP, "bucket_cap_mb", 5)
)
_STATIC: Final = Choice("static-graph", WRONG, (m.argument(m.DDP, "static_graph", value=True),))


_VIEW: Final = m.named_fix(
    "ddp-bucket-view", m.REMEDY, m.argument(m.DDP, "gradient_as_bucket_view", value=True)
)
_COMPRESSED: Final = m.named_fix("ddp-bf16", WRONG, m.wrap(m.DDP, "bf16-hook"))
_PLAIN: Final = {"packed": 1, "wait_ms": 0, "notes": 0, "litter": 0}
_STEPS: Final = {"c": 100, "g": 400}  # of a recorded run
_ON_HOSTS: Final = {"batch": 512, "resident": True}
_SLOW_STEPS, _FAST_STEPS = 24, 40  # of a recorded run on several hosts: by their links


class Truth(Struct, frozen=True):
    """What must be named first: a cause by one of its codes; the rank, and a place in its code."""

    codes: tuple[str, ...]
    rank: int | None = None
    functions: tuple[str, ...] = ()
    host: str | None = None  # whose link it is


def _sized_case(
    name: str,
    planted: tuple[str, ...],
    options: Mapping[str, Any],
    menu: tuple[Choice, ...],
    without: Mapping[str, Mapping[str, Any]],
    *,
    ranks: int = 2,
) -> Case:
    """Return the case of a size that the end of its name says."""
    size, kind = name[-1], FAULT if planted else HEALTHY
    return Case(
        name, FAMILY, size, kind, planted, options, menu, without, ranks, steps=_STEPS[size]
    )


def _late(
    name: str,
    planted: str,
    options: Mapping[str, Any],
    *functions: str,
    ranks: int = 2,
    plain: Mapping[str, Any] | None = None,
) -> tuple[Case, Truth]:
    """Return a training whose last rank is late, and what must be named of it."""
    plain = plain or {key: least for key, least in _PLAIN.items() if key in options}
    menu = (m.variant("delay"), _BUCKETS)
    case = _sized_case(name, (planted,), options, menu, {"delay": plain}, ranks=ranks)
    return case, Truth(("G601",), ranks - 1, functions)


def _exchange(
    name: str,
    planted: str,
    options: Mapping[str, Any],
    *codes: str,
    menu: tuple[Choice, ...] = (),
    plain: Mapping[str, Any],
) -> tuple[Case, Truth]:
    """Return a training whose ranks exchange badly, and what must be named of it."""
    menu = (m.variant("exchange"), *menu)
    case = _sized_case(name, (planted,), options, menu, {"exchange": plain})
    return case, Truth(codes)


def _linked(
    name: str, planted: str, options: Mapping[str, Any], hosts: int = 2
) -> tuple[Case, Truth]:
    """Return a training on several hosts, the last of which has a slow link."""
    options = {**_ON_HOSTS, "hosts": hosts, **options}
    menu, plain = (m.variant("link"),), {"link": {"link_mbit": 0}}
    case = _sized_case(name, (planted,), options, menu, plain, ranks=hosts)
    return replace(case, steps=_SLOW_STEPS), Truth(("G612",), host=f"box{hosts - 1}")


def _sound_on_hosts(name: str, options: Mapping[str, Any], hosts: int) -> tuple[Case, Truth]:
    case, truth = _sound(name, {**_ON_HOSTS, "hosts": hosts, **options}, hosts)
    return replace(case, steps=_SLOW_STEPS if options else _FAST_STEPS), truth


def _sound(name: str, options: Mapping[str, Any], ranks: int = 2) -> tuple[Case, Truth]:
    menu = (_BUCKETS,) if "accumulate" in options else (_BUCKETS, _STATIC)  # torch fails with both
    options, steps = {**options, "at_once": True}, _STEPS[name[-1]]
    case = Case(name, FAMILY, name[-1], HEALTHY, (), options, menu, ranks=ranks, steps=steps)
    return case, Truth(())


_CASES: Final = (
    _late("jobs-late-loader-c", "slow samples of one rank", {"packed": 5}, "unpack", "__getitem__"),
    _late("jobs-slow-disk-c", "one rank's storage", {"wait_ms": 12.0}, "fetch", "__getitem__"),
    _late("jobs-host-work-c", "one rank's host work", {"notes": 60_000}, "take_notes"),
    _late("jobs-collector-c", "one rank's collector", {"litter": 200_000}, "collect_litter"),
    _late(
        "jobs-sharded-c", "one rank's host work, parameters in parts",
        {"notes": 60_000, "sharded": True}, "take_notes",
    ),
    _late(
        "jobs-uneven-samples-c", "one rank's samples", {"longer": 2},
        plain={"longer": 1, "batch": 144},  # as many samples, dealt out evenly
    ),
    _late(
        "jobs-uneven-lengths-c", "one rank's sequences", {"length": 2, "longest": 6, "batch": 48},
        plain={"length": 4, "longest": 4},  # as many time steps, dealt out evenly
    ),
    _late(
        "jobs-uneven-experts-c", "one rank's expert", {"last_share": 0.9, "wide": 256},
        plain={"last_share": 0.5},
    ),
    _exchange(
        "jobs-by-hand-c", "all-reduce by hand", {**_DEEP, "by_hand": True}, "G603",
        plain={"by_hand": False},
    ),
    _exchange(
        "jobs-tiny-buckets-c", "tiny buckets", {**_DEEP, "bucket_mb": 0.01}, "G604",
        menu=(_BUCKETS,), plain={"bucket_mb": 25.0},
    ),
    _exchange(
        "jobs-one-bucket-c", "one bucket",
        {"wide": 1024, "layers": 6, "batch": 128, "bucket_mb": 1000.0}, "G613", "G608",
        menu=(_SMALLER_BUCKETS,), plain={"bucket_mb": 4.0},
    ),
    _exchange(
        "jobs-every-pass-c", "no no_sync with accumulation", {**_DEEP, "accumulate": 4}, "G602",
        menu=(m.no_sync(m.REMEDY),), plain={"no_sync": True},
    ),
    _exchange(
        "jobs-unused-parameters-c", "search for unused parameters",
        {**_DEEP, "layers": 4, "find_unused": True}, "G605",
        menu=(m.named_fix("ddp-no-unused", m.REMEDY,
                          m.argument(m.DDP, "find_unused_parameters", value=False)),),
        plain={"find_unused": False},
    ),
    _exchange(
        "jobs-synced-norm-c", "statistics over all ranks",
        {**_DEEP, "layers": 3, "synced_norm": True}, "G606",
        plain={"synced_norm": False},
    ),
    _exchange(
        "jobs-gathered-objects-c", "objects gathered in each step", {"gathers": True}, "G607",
        plain={"gathers": False},
    ),
    _exchange(
        "jobs-saving-c", "one rank saves", {"save_every": 5}, "G701", "G601",
        plain={"save_every": 0},
    ),
    _exchange(
        "jobs-copied-buckets-c", "gradients copied back from buckets", _LARGE, "G608",
        menu=(_VIEW,), plain={"bucket_view": True},
    ),
    _late(
        "jobs-host-work-four-c", "one rank's host work", {"notes": 60_000}, "take_notes", ranks=4
    ),
    _late(
        "jobs-slow-disk-four-c", "one rank's storage", {"wait_ms": 12.0}, "fetch", "__getitem__",
        ranks=4,
    ),
    _late(
        "jobs-slow-disk-g", "one rank's storage", {**_LOADED, "wait_ms": 12.0}, "fetch",
        "__getitem__",
    ),
    _late(
        "jobs-sharded-g", "one rank's host work, parameters in parts",
        {**_HALF, "notes": 60_000, "sharded": True}, "take_notes",
    ),
    _late(
        "jobs-stages-c", "one rank's host work, layers on two ranks",
        {"notes": 15_000, "stages": 4}, "take_notes",
    ),
    _late(
        "jobs-stages-four-c", "one rank's host work, layers on four ranks",
        {"notes": 15_000, "stages": 4}, "take_notes", ranks=4,
    ),
    _late(
        "jobs-stages-g", "one rank's host work, layers on two ranks",
        {**_HALF, "notes": 15_000, "stages": 4}, "take_notes",
    ),
    _exchange(
        "jobs-by-hand-g", "all-reduce by hand", {**_HALF, "by_hand": True}, "G603",
        plain={"by_hand": False},
    ),
    _exchange(
        "jobs-by-hand-many-g", "all-reduce by hand, of many parameters",
        {**_GPU, "wide": 1024, "layers": 24, "batch": 64, "by_hand": True}, "G603",
        plain={"by_hand": False},
    ),
    _exchange(
        "jobs-gloo-g", "gloo between GPUs", {**_GPU, "wide": 2048, "backend": "gloo"}, "G609",
        plain={"backend": None},
    ),
    (
        _sized_case(
            "jobs-replicated-g", ("DataParallel",), {**_HALF, "replicated": True},
            (_BUCKETS,), {}, ranks=1,
        ),
        Truth(("G610",)),  # another start, so that no menu has its remedy
    ),
    _late("jobs-host-work-g", "one rank's host work", {**_GPU, "notes": 60_000}, "take_notes"),
    _exchange(
        "jobs-copied-buckets-g", "gradients copied back from buckets", {**_GPU, "batch": 64},
        "G608", menu=(_VIEW, _COMPRESSED), plain={"bucket_view": True},
    ),
    _sound("jobs-lean-g", {**_HALF, "batch": 8192, "bucket_view": True}),
    _late(
        "jobs-uneven-samples-g", "one rank's samples", {**_HALF, "longer": 2},
        plain={"longer": 1, "batch": 6144},
    ),
    _exchange(
        "jobs-tiny-buckets-g", "tiny buckets",
        {**_GPU, "layers": 12, "wide": 1024, "bucket_mb": 0.01}, "G604",
        menu=(_BUCKETS,), plain={"bucket_mb": 25.0},
    ),
    _exchange(
        "jobs-every-pass-g", "no no_sync with accumulation", {**_HALF, "accumulate": 4}, "G602",
        menu=(m.no_sync(m.REMEDY),), plain={"no_sync": True},
    ),
    _late(
        "jobs-scored-c", "one rank's scores, attention",
        {"model": "attention", "wide": 256, "batch": 48, "at_once": True, "scored": True},
        "score_batch", "<genexpr>", plain={"scored": False},
    ),
    _exchange(
        "jobs-clipped-c", "norms by hand, convolutions", {**_IMAGES, "clipped": True}, "G603",
        plain={"clipped": False},
    ),
    _sound("jobs-lean-attention-c", {"model": "attention", "wide": 256, "batch": 48}),
    _sound("jobs-lean-c", {}),
    _sound("jobs-lean-deep-c", _DEEP),
    _sound("jobs-lean-four-c", {"wide": 256, "batch": 48}, ranks=4),
    _sound("jobs-lean-passes-c", {**_DEEP, "accumulate": 4, "no_sync": True}),
    _sound("jobs-lean-sharded-c", {"sharded": True}),
    _linked(
        "jobs-slow-link-c", "one host's link", {"link_mbit": 100, "only_sent": True}
    ),
    _linked(
        "jobs-slow-link-delayed-c", "one host's link, far away",
        {"link_mbit": 200, "link_delay_ms": 5.0}, hosts=3,
    ),
    _linked("jobs-slow-link-four-c", "one host's link, both ways", {"link_mbit": 100}, hosts=4),
    _sound_on_hosts("jobs-lean-hosts-c", {}, 2),
    _sound_on_hosts("jobs-lean-slow-hosts-c", {"link_mbit": 100, "all_slow": True}, 3),
)  # fmt: skip
CASES: Final[Mapping[str, Case]] = {case.name: case for case, _ in _CASES}
TRUTHS: Final[Mapping[str, Truth]] = {case.name: truth for case, truth in _CASES}


def command(case: Case) -> list[str]:
    """Return the script of a case, and its arguments."""
    script = ["tests/jobs/run.py", case.name, "--steps", str(case.steps)]
    return [*script, "--device", DEVICES[case.size]]
