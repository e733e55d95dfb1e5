"""Where the time of fetches goes, found in trainings whose cause is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gapless import wire
from tests.payload.loading import FetchRow, RecordedRun, run_script

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytest.importorskip("PIL")

LIBRARIES = {
    "albumentations/core/composition.py": "class Compose:\n"
    "    def __init__(self, work): self.work = work\n"
    "    def __call__(self, *, image): return self.work(image)\n",
    "tiktoken/core.py": "class Encoding:\n"
    "    def __init__(self, work): self.work = work\n"
    "    def encode(self, text): return self.work(text)\n",
}
SCRIPT = """
import threading
import numpy as np
from PIL import Image
from albumentations.core.composition import Compose
from tiktoken.core import Encoding

def work(thing):
    spin(0.02)
    return thing

class Decode(Numbers):
    path = "large.jpg"
    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            picture = Image.open(file).convert("RGB")
        return torch.from_numpy(np.asarray(self.change(picture)).copy())
    def change(self, picture):
        return picture.crop((0, 0, 8, 8))

class Augment(Decode):
    path = "small.jpg"
    def change(self, picture):
        return Compose(work)(image=picture)

class Tokenise(Numbers):
    def __getitem__(self, index):
        return len(Encoding(work).encode("text"))

class Other(Numbers):
    def __getitem__(self, index):
        return work(index)

class Read(Numbers):
    def __getitem__(self, index):
        out, into = os.pipe()
        def late():
            reading.wait()
            time.sleep(0.1)
            os.write(into, b"x")
            os.close(into)
        reading = threading.Event()
        threading.Thread(target=late).start()
        with open(out, "rb") as file:
            reading.set()
            return len(file.read())

class Packed(Numbers):
    def __getitem__(self, index):
        number = os.open("large.jpg", os.O_RDONLY)
        try:
            return len(os.pread(number, 4096, index * 4096))
        finally:
            os.close(number)

class Stream(IterableDataset):
    def __iter__(self):
        for index in range(6):
            yield work(index)

class Whole(Numbers):
    def __getitems__(self, indices):
        return [work(index) for index in indices]

def collate(samples):
    work(None)
    work(None)
    return samples

CASES = {
    "decode": (Decode(), {}),
    "augment": (Augment(), {}),
    "collate": (Numbers(), {"collate_fn": collate}),
    "tokenise": (Tokenise(), {}),
    "other": (Other(), {}),
    "read": (Read(), {}),
    "packed": (Packed(), {}),
    "stream": (Stream(), {}),
    "whole": (Whole(), {}),
    "indexed": (Other(), {"batch_size": None, "sampler": [[0, 1, 2], [3, 4]]}),
    "single": (Other(), {"batch_size": None}),
    "stream_of_singles": (Stream(), {"batch_size": None}),
}

if __name__ == "__main__":
    noise = Image.effect_noise((900, 900), 60).convert("RGB")
    noise.save("large.jpg", quality=95)
    noise.crop((0, 0, 16, 16)).save("small.jpg")
    how = HOW
    for name, (data, arguments) in CASES.items():
        if name not in CHOSEN:
            continue
        for _ in DataLoader(data, **{"batch_size": 4, **how, **arguments}):
            pass
        if "num_workers" in how:
            time.sleep(0.2)
"""
LOADER_SETTINGS = {
    "training": "{}",
    "fork": "{'num_workers': 2, 'multiprocessing_context': 'fork'}",
    "spawn": "{'num_workers': 1, 'multiprocessing_context': 'spawn'}",
}
ALL_CASES = """
decode augment collate tokenise other read packed
stream whole indexed single stream_of_singles
"""
CASES_BY_SETTING = {"training": ALL_CASES, "fork": "decode collate stream", "spawn": "decode"}


@pytest.fixture(scope="module", params=LOADER_SETTINGS)
def recorded_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RecordedRun:
    folder = tmp_path_factory.mktemp("fetches")
    for path, text in LIBRARIES.items():
        target = folder / path
        target.parent.mkdir(parents=True)
        target.write_text(text)
    cases = CASES_BY_SETTING[request.param].split()
    script = SCRIPT.replace("HOW", LOADER_SETTINGS[request.param]).replace("CHOSEN", str(cases))
    recorded_run = run_script(folder, script)
    names = {str(number): name for number, name in enumerate(cases)}
    return recorded_run._replace(
        out=" ".join(names[str(row.value_of("loader"))] for row in recorded_run.rows)
    )


def rows_of_case(recorded_run: RecordedRun, case: str) -> list[FetchRow]:
    case_rows = [
        row
        for row, name in zip(recorded_run.rows, recorded_run.out.split(), strict=True)
        if name == case
    ]
    if not case_rows:
        pytest.skip("not tried there")
    return case_rows


def test_prints_nothing_and_misses_nothing(recorded_run: RecordedRun) -> None:
    assert recorded_run.error == ""
    own_topics = ("fetch", "stage of", "file", "run queue", "bytes", "faults")
    assert [
        note for note in recorded_run.texts(wire.UNOBSERVED) if note["what"].startswith(own_topics)
    ] == []


def test_wall_is_processor_and_run_queue_and_blocked(recorded_run: RecordedRun) -> None:
    for row in recorded_run.rows:
        tolerance_ns = (
            100_000 + row.wall_ns // 20
        )  # clocks are read one after another, on a busy machine
        assert 0 < row.value_of("cpu") <= row.wall_ns + tolerance_ns
        assert row.value_of("run_queue") >= 0
        assert -tolerance_ns < row.blocked_ns < row.wall_ns


def test_stages_sum_to_the_fetch(recorded_run: RecordedRun) -> None:
    for row in recorded_run.rows:
        if row.value_of("detailed"):
            assert sum(row.value_of(f"{stage}_wall") for stage in wire.STAGES) == row.wall_ns
            assert sum(row.value_of(f"{stage}_cpu") for stage in wire.STAGES) == row.value_of("cpu")
        else:
            assert {row.value_of(f"{stage}_wall") for stage in wire.STAGES} == {-1}


@pytest.mark.parametrize("case", ["decode", "augment", "collate", "tokenise", "other"])
def test_finds_the_stage_that_computes(recorded_run: RecordedRun, case: str) -> None:
    for row in rows_of_case(recorded_run, case):
        assert row.value_of("detailed")
        assert row.value_of("samples") == 4
        assert row.longest_stage("cpu") == case
        assert row.value_of(f"{case}_cpu") > row.value_of("cpu") * 2 // 3


def test_finds_reading_that_waits(recorded_run: RecordedRun) -> None:
    for row in rows_of_case(recorded_run, "read"):
        assert row.longest_stage() == "read"
        assert row.value_of("read_wall") > 4 * 25_000_000
        assert row.value_of("read_cpu") < row.value_of("read_wall") // 5
        assert row.blocked_ns > row.wall_ns // 2


def test_counts_the_bytes_of_read_calls(recorded_run: RecordedRun) -> None:
    for row in rows_of_case(recorded_run, "packed"):
        assert row.value_of("bytes_read") == 4 * 4096
        assert row.value_of("read_wall") > 0


def test_rows_of_workers_carry_worker_loader_and_sequence(recorded_run: RecordedRun) -> None:
    positions = [
        (row.value_of("worker"), row.value_of("sequence"))
        for row in rows_of_case(recorded_run, "decode")
    ]
    assert sorted(positions) in ([(-1, 0), (-1, 1)], [(0, 0), (1, 0)], [(0, 0), (0, 1)])


def test_counts_what_an_iterable_gives(recorded_run: RecordedRun) -> None:
    sample_counts = [row.value_of("samples") for row in rows_of_case(recorded_run, "stream")]
    # Two workers that do not share the stream give each sample twice, as they would unrecorded.
    assert sample_counts[:3] == [4, 2, 0] or sorted(sample_counts) == [0, 0, 2, 2, 4, 4]
    assert rows_of_case(recorded_run, "stream")[0].longest_stage("cpu") == "other"


def test_a_batch_got_at_once_is_four_samples(recorded_run: RecordedRun) -> None:
    assert [row.value_of("samples") for row in rows_of_case(recorded_run, "whole")] == [4, 4]


def test_a_list_of_indices_from_a_sampler_is_as_many_samples(recorded_run: RecordedRun) -> None:
    samples_by_sequence = {
        row.value_of("sequence"): row.value_of("samples")
        for row in rows_of_case(recorded_run, "indexed")
    }
    assert samples_by_sequence.items() <= {0: 3, 1: 2}.items()
    assert samples_by_sequence


def test_without_batches_a_fetch_is_one_sample(recorded_run: RecordedRun) -> None:
    assert {row.value_of("samples") for row in rows_of_case(recorded_run, "single")} == {1}
    samples_by_sequence = {
        row.value_of("sequence"): row.value_of("samples")
        for row in rows_of_case(recorded_run, "stream_of_singles")
    }
    expected = dict(enumerate([1] * 6 + [0]))
    assert samples_by_sequence.items() <= expected.items()
    assert {0, 1} <= samples_by_sequence.keys()


def test_paths_that_were_opened_are_counted(recorded_run: RecordedRun) -> None:
    rows_of_case(recorded_run, "augment")
    read: dict[str, int] = {}
    for frame in recorded_run.texts(wire.FILES):
        read.update(frame["read"])
    assert read == {"large.jpg": 8, "small.jpg": 8}


RANDOM = """
import numpy as np

class Draws(Numbers):
    def __init__(self, draw):
        self.draw = draw
    def __getitem__(self, index):
        self.draw()
        spin(0.001)
        return index

draws = [
    lambda: torch.rand(1), lambda: np.random.rand(), lambda: random.random(), lambda: None,
    lambda: torch.Generator().manual_seed(1), lambda: np.random.default_rng(0).random(),
]
class Held(Numbers):
    def __init__(self, *generators):
        self.transforms = [{"generator": one} for one in generators]
    def __getitem__(self, index):
        self.transforms[0]["generator"].random()
        return index
class Torch:
    def __init__(self):
        self.generator = torch.Generator()
    def random(self):
        torch.rand(1, generator=self.generator)
for draw in draws:
    for _ in DataLoader(Draws(draw), batch_size=4):
        pass
for held in (np.random.default_rng(0), np.random.RandomState(0), random.Random(0), Torch(), random):
    for _ in DataLoader(Held(held, random.Random(0)), batch_size=4):
        pass
print(torch.rand(1), np.random.rand(), random.random())
"""


def test_tells_whether_a_generator_was_advanced_and_advances_none(tmp_path: Path) -> None:
    script = RANDOM.replace(
        "draws = [", "torch.manual_seed(3)\nnp.random.seed(3)\nrandom.seed(3)\ndraws = ["
    )
    recorded_run = run_script(tmp_path, script, random_every=1)
    advanced = [
        row.value_of("random") for row in recorded_run.rows if row.value_of("sequence") == 0
    ]
    assert advanced == [1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    assert recorded_run.out == run_script(tmp_path, script, is_recorded=False).out
