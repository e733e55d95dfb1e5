"""How full batches are: what the recorder reads off a few of them, and that nobody notices."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.profiler import profile

from gapless import wire
from gapless.payload.loading import padding
from tests.payload.loading import run_script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LENGTHS = (30, 45, 60, 90, 15, 50, 75, 55)
SHARE = sum(LENGTHS) / len(LENGTHS)


WITHOUT_LENGTH: list[object] = [
    torch.ones(8),
    torch.ones(8, 4),
    torch.ones(8, 40, dtype=torch.bfloat16),
    torch.ones(8, 40).to_sparse(),
    torch.ones(8, 40, device="meta"),
    torch.ones(8, 40, dtype=torch.complex64),
    ["text", 3, None],
    np.ones((8, 40)),
    [()] * 1000,
]


def rows(length: int | None = None) -> torch.Tensor:
    """Return recordings in one tensor, padded to the longest, or to a length."""
    generator = torch.Generator().manual_seed(0)
    recordings = [torch.randn(n_frames, 20, generator=generator) for n_frames in LENGTHS]
    padded = pad_sequence(recordings, batch_first=True)
    return padded if length is None else pad(padded, (0, 0, 0, length - padded.size(1)))


def tokens(length: int = 120) -> torch.Tensor:
    ids = torch.zeros(len(LENGTHS), length, dtype=torch.int64)
    for row, n_tokens in enumerate(LENGTHS):
        ids[row, :n_tokens] = torch.arange(5, 5 + n_tokens)
    return ids


def facts_of_length(batch: object, length: int) -> dict[str, Any]:
    return next(facts for facts in padding.values(batch) if facts["length"] == length)


@pytest.fixture(autouse=True)
def forget_looks() -> Iterator[None]:
    padding.looks.begin()
    yield
    padding.looks.begin()


@pytest.mark.parametrize(
    "order",
    [(0, 1, 2), (0, 2, 1), (1, 0, 2)],
    ids=["batch first", "channels first", "time first"],
)
def test_padding_is_found_wherever_the_length_stands(order: tuple[int, int, int]) -> None:
    facts = facts_of_length((rows(200).permute(order), torch.tensor(LENGTHS)), 200)
    assert facts["by"] == "lengths"
    assert (facts["rows"], facts["kind"]) == (8, "float")
    assert facts["filled"] == pytest.approx(SHARE / 200, abs=1e-3)
    assert facts["longest"] == pytest.approx(90 / 200, abs=1e-3)
    assert facts["square"] == pytest.approx(np.mean([(n / 200) ** 2 for n in LENGTHS]), abs=1e-3)


def test_without_lengths_it_is_measured_and_said_so() -> None:
    facts = facts_of_length([rows()], 90)
    assert facts["by"] is None
    assert facts["filled"] == pytest.approx(SHARE / 90, abs=0.02)
    assert facts["longest"] == 1


@pytest.mark.parametrize("inverted", [False, True])
def test_a_mask_tells_where_rows_end(*, inverted: bool) -> None:
    ids = tokens()
    mask = ids == 0 if inverted else (ids != 0).long()
    batch = UserDict({"input_ids": ids, "attention_mask": mask, "kinds": torch.zeros_like(ids)})
    facts = padding.values(batch)
    assert len(facts) == 1
    assert (facts[0]["by"], facts[0]["kind"], facts[0]["dimensions"]) == ("mask", "int", 2)
    assert facts[0]["filled"] == pytest.approx(SHARE / 120, abs=1e-3)


def test_labels_of_which_few_are_set_do_not_shorten_rows() -> None:
    labels = torch.full((8, 120), -100)
    labels[:, 3] = 7
    assert facts_of_length({"x": tokens(), "y": labels}, 120)["filled"] == pytest.approx(
        SHARE / 120, abs=0.02
    )


def test_lengths_that_say_otherwise_are_not_believed() -> None:
    assert facts_of_length((rows(200), torch.arange(8)), 200)["by"] is None


def test_rows_that_are_all_as_long_are_full() -> None:
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randn(4, 3, 32, 32, generator=generator)
    assert facts_of_length((pictures, torch.arange(4)), 32)["filled"] == 1
    block = torch.randint(5, 99, (4, 128), generator=generator)
    assert facts_of_length(block, 128)["filled"] > 0.99


def test_long_rows_are_sampled() -> None:
    sound = torch.randn(3, 100_000)
    sound[:, 25_000:] = 0
    assert facts_of_length(sound, 100_000)["filled"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("batch", WITHOUT_LENGTH, ids=range(len(WITHOUT_LENGTH)))
def test_what_has_no_length_or_no_memory_to_see_is_left_alone(batch: object) -> None:
    assert padding.values(batch) == []


def test_nothing_shows_that_a_batch_was_looked_at() -> None:
    batch = (rows(200).requires_grad_(), torch.tensor(LENGTHS), tokens())
    versions = [tensor._version for tensor in batch]  # noqa: SLF001 - counts what is written
    copies, random_state = [tensor.detach().clone() for tensor in batch], torch.get_rng_state()
    with profile() as profiled:
        padding.values(batch)
    assert len(profiled.events() or ()) == 0
    assert all(torch.equal(tensor, copied) for tensor, copied in zip(batch, copies, strict=True))
    assert torch.equal(random_state, torch.get_rng_state())
    assert [tensor._version for tensor in batch] == versions  # noqa: SLF001


def test_looks_are_few_and_take_a_small_share_of_the_time() -> None:
    second, cost_ns, now_ns, spent_ns = 1_000_000_000, 2_000_000, 0, 0
    while now_ns < 600 * second:
        if padding.is_look_due(0, now_ns, window=False):
            padding.note_look(0, now_ns, now_ns + cost_ns, window=False, has_lengths=True)
            spent_ns += cost_ns
            assert spent_ns - cost_ns <= now_ns / padding.PAUSE_FACTOR
        now_ns += second // 20
    assert spent_ns == padding.MAX_LOOKS * cost_ns


def test_a_loader_without_lengths_is_left_alone_soon() -> None:
    for index in range(padding.MAX_BLANK_LOOKS):
        assert padding.is_look_due(3, index << 40, window=False)
        padding.note_look(3, index << 40, (index << 40) + 1, window=False, has_lengths=False)
    assert not padding.is_look_due(3, 1 << 60, window=False)
    assert not padding.is_look_due(3, 1 << 60, window=True)
    assert padding.is_look_due(4, 1 << 60, window=False)


SCRIPT = """
class Rows(Dataset):
    def __len__(self):
        return 192
    def __getitem__(self, index):
        time.sleep(0.012)
        return torch.arange(1, 9 + index % 8)

def together(samples):
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)

begun = time.monotonic()
for batch in DataLoader(Rows(), batch_size=8, collate_fn=together):
    pass
print(time.monotonic() - begun)
"""


def test_a_run_tells_of_the_batches_that_were_looked_at(tmp_path: Path) -> None:
    recorded = run_script(tmp_path, SCRIPT)
    filling_facts = [fact for fact in recorded.texts(wire.FACT) if fact["noun"] == "filling"]
    assert [fact["id"] for fact in filling_facts] == list(range(len(filling_facts)))
    assert (
        2 <= len(filling_facts) <= 2 + float(recorded.out) / 0.25
    )  # so long from one to the next, at the least
    assert {fact["values"]["loader"] for fact in filling_facts} == {0}
    assert filling_facts[0]["values"]["lengths"] == [
        {
            "rows": 8,
            "length": 15,
            "kind": "int",
            "dimensions": 2,
            "along": 1,
            "by": None,
            "filled": 0.775,  # the row that is one short may end so by chance
            "longest": 1.0,
            "square": 0.6272,
        }
    ]
