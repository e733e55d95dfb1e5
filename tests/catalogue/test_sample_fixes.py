"""Drop-ins for samples are proposed where what was recorded shows that they apply."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, machine, worker_loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.fixes.samples.recycled_collate import recycled_collate
from gapless.catalogue.fixes.samples.sample_cache import request_sample_cache, sample_cache
from gapless.catalogue.fixes.samples.uint8_in_loop import request_bytes_of_batches
from gapless.catalogue.queries.input.loaders import find_loading
from gapless.catalogue.rules.input.read_bound import read_bound
from gapless.catalogue.rules.input.slow_stages import SLOW_STAGES
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection

TORCH = "torch.utils.data._utils.collate.default_collate"
PAGES = (38 << 20) / 64 / 4096  # of a sample, in batches of 64
(COLLATE_BOUND,) = [rule for rule in SLOW_STAGES if rule.name == "collate-bound"]


def evidence(faults: float | None, collate_name: str = TORCH) -> Evidence:
    loader = replace(worker_loader(), num_workers=2, collate_name=collate_name)
    workers = example_workers(2, {"collate": 5.0, "decode": 0.5}, faults_per_sample=faults)
    return evidence_of(
        gpu(loader, machine(cpus=2)),
        {"busy.math": 10.0, "idle.data.collate": 90.0},
        example_use(loader, {"collate": 90.0}, workers),
    )


def requested_fixes(faults: float | None) -> list[str]:
    (detection,) = COLLATE_BOUND(evidence(faults))
    assert isinstance(detection, Detection)
    return [str(request) for request in detection.helps]


def test_it_is_proposed_where_most_pages_of_a_batch_were_faults() -> None:
    assert requested_fixes(PAGES) == ["recycled-collate"]
    assert requested_fixes(PAGES / 4) == []
    assert requested_fixes(None) == []


def test_pictures_are_to_be_sent_as_bytes_where_floats_are_made_at_the_end() -> None:
    seen = evidence(None)
    (loader,) = seen.facts.loaders
    pipeline = replace(loader, pipeline=("Resize", "ToTensor"), to_floats=1)
    (detection,) = COLLATE_BOUND(replace(seen, facts=replace(seen.facts, loaders=(pipeline,))))
    assert isinstance(detection, Detection)
    assert [str(request) for request in detection.helps] == ["uint8-to-device"]


def test_files_are_to_be_decoded_on_the_device_where_they_are_only_cropped() -> None:
    (decode_bound,) = [rule for rule in SLOW_STAGES if rule.name == "decode-bound"]
    for pipeline, fixes in (
        (("Resize", "ToTensor"), ["decode-on-device", "reduced-decoding"]),
        (("Resize", "ColorJitter", "ToTensor"), ["reduced-decoding"]),
        (("ColorJitter", "ToTensor"), []),
        (("ColorJitter", "ToTensor", "opencv"), ["jpeg-decoder"]),
    ):
        decoders = tuple(name for name in pipeline if name == "opencv")
        loader = replace(
            worker_loader(iterations=1),
            num_workers=2,
            pipeline=pipeline,
            to_floats=1,
            decoders=decoders,
        )
        workers = example_workers(2, {"decode": 5.0, "collate": 0.5})
        (detection,) = decode_bound(
            evidence_of(
                gpu(loader, machine(cpus=2)),
                {"busy.math": 10.0, "idle.data.decode": 90.0},
                example_use(loader, {"decode": 90.0}, workers),
            )
        )
        assert isinstance(detection, Detection)
        assert [str(request) for request in detection.helps] == fixes


def slow_decoding(decode_ms: float = 5.0, **changes: object) -> Evidence:
    loader = worker_loader(decoders=(), **changes)
    loader = replace(loader, num_workers=2)
    workers = example_workers(2, {"decode": decode_ms, "collate": 0.5})
    return evidence_of(
        gpu(loader, machine(cpus=2)),
        {"busy.math": 10.0, "idle.data.decode": 90.0},
        example_use(loader, {"decode": 90.0}, workers),
    )


@pytest.mark.parametrize(
    ("is_random", "iterations", "fixes"),
    [
        (True, 2, ["picture-cache"]),
        (None, 2, ["picture-cache"]),
        (False, 2, ["sample-cache"]),
        (False, 1, []),
    ],
)
def test_samples_or_pictures_are_to_be_kept_where_there_was_a_second_epoch(
    *, is_random: bool | None, iterations: int, fixes: list[str]
) -> None:
    (decode_bound,) = [rule for rule in SLOW_STAGES if rule.name == "decode-bound"]
    (detection,) = decode_bound(slow_decoding(random=is_random, iterations=iterations))
    assert isinstance(detection, Detection)
    assert [str(request) for request in detection.helps] == fixes


def test_files_are_to_be_decoded_smaller_where_code_of_the_data_set_resizes_pictures() -> None:
    (decode_bound,) = [rule for rule in SLOW_STAGES if rule.name == "decode-bound"]
    (detection,) = decode_bound(slow_decoding(iterations=1, resizes=True))
    assert isinstance(detection, Detection)
    assert [str(request) for request in detection.helps] == ["reduced-decoding"]


@pytest.mark.parametrize(("decode_ms", "is_kept"), [(0.2, False), (0.26, True)])
def test_samples_are_kept_if_making_them_takes_longer(*, decode_ms: float, is_kept: bool) -> None:
    seen = slow_decoding(decode_ms, random=False, iterations=2)
    loading = find_loading(seen, seen.facts.loaders[0])
    assert loading is not None
    assert bool(request_sample_cache(loading)) == is_kept


def test_what_is_left_of_samples_that_are_kept_is_to_look_up_and_copy_them() -> None:
    seen = slow_decoding(random=False)
    (proposal,) = sample_cache(seen.facts)
    changes = sample_cache.predict_changes(seen, proposal)
    assert changes is not None
    (change,) = changes
    assert isinstance(change, LoaderChange)
    assert set(change.stages) == {"read", "decode", "augment", "tokenise", "other"}
    copied_ns = 64 * 15_000 + 0.34 * (38 << 20)
    made_share = 1 / 32 + 4 * 2 / (seen.facts.loaders[0].length or 0)
    assert min(change.stages.values()) == pytest.approx(copied_ns / (64 * 5e6) + made_share)
    assert min(change.stages.values()) == max(change.stages.values())


def test_what_is_left_of_torchs_collating_is_to_write_the_batch_once() -> None:
    seen = evidence(PAGES)
    (proposal,) = recycled_collate(seen.facts)
    changes = recycled_collate.predict_changes(seen, proposal)
    assert changes is not None
    (change,) = changes
    assert isinstance(change, LoaderChange)
    written_ns = 200_000 + 0.2 * (38 << 20)
    assert change.stages == {"collate": written_ns / (64 * 5e6)}
    loader = seen.facts.loaders[0]
    assert change.freed_ns == (None if loader.pin_memory else 250_000 + round(0.17 * (38 << 20)))


def test_a_function_of_the_users_has_no_price() -> None:
    seen = evidence(PAGES, "train.collate")
    (proposal,) = recycled_collate(seen.facts)
    assert recycled_collate.predict_changes(seen, proposal) is None


def test_files_are_to_be_read_ahead_where_fetches_wait_for_files_of_a_list() -> None:
    for files, fixes in (("paths", ["read-ahead"]), (None, [])):
        loader = replace(worker_loader(), files=files)
        workers = example_workers(8, {"read": (9.0, 0.3), "decode": 0.5})
        (detection,) = read_bound(
            evidence_of(
                gpu(loader),
                {"busy.math": 10.0, "idle.data.read": 90.0},
                example_use(loader, {"read": 90.0}, workers),
            )
        )
        assert isinstance(detection, Detection)
        assert [str(request) for request in detection.helps] == fixes


@pytest.mark.parametrize(
    ("is_bytes", "copied", "fixes"),
    [(True, 400, ["uint8-in-loop"]), (True, 150, []), (True, None, []), (False, 400, [])],
)
def test_bytes_are_named_where_far_more_is_copied_than_batches_hold(
    copied: float | None, fixes: list[str], *, is_bytes: bool
) -> None:
    loader = worker_loader(byte_pictures=is_bytes, batch_bytes=100, trains=True)
    assert [*map(str, request_bytes_of_batches(gpu(loader), copied))] == fixes
