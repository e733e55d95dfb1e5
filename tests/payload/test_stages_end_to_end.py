import pytest

from gapless import wire
from tests.payload.loading import Ran, run

pytest.importorskip("torch")
pytest.importorskip("PIL")

JPEG = """
from PIL import Image, ImageFilter
import numpy as np

class Pictures(Numbers):
    def __getitem__(self, index):
        with open("picture.jpg", "rb") as file:
            picture = Image.open(file).convert("RGB")
        return torch.from_numpy(np.asarray(self.change(picture)).copy())
    def change(self, picture):
        return picture.resize((8, 8), Image.NEAREST)

if not os.path.exists("picture.jpg"):
    Image.effect_noise((900, 900), 60).convert("RGB").save("picture.jpg", quality=95)
"""
LOADS = {
    "in the training": "num_workers=0",
    "in forked workers": "num_workers=2, multiprocessing_context='fork'",
    "in spawned workers": "num_workers=2, multiprocessing_context='spawn'",
}


def load(data: str, arguments: str) -> str:
    return f"""
if __name__ == "__main__":
    for _ in range(2):
        for batch in DataLoader({data}, batch_size=4, {arguments}):
            pass
    time.sleep(0.2)
"""


def check_sums(ran: Ran) -> None:
    assert ran.rows
    for row in ran.rows:
        assert 0 < row["cpu"] < row.wall + 100_000
        assert -100_000 < row.blocked <= row.wall
        if row["detailed"]:
            assert sum(row[f"{stage}_wall"] for stage in wire.STAGES) == row.wall
            assert sum(row[f"{stage}_cpu"] for stage in wire.STAGES) == row["cpu"]
        else:
            assert {row[f"{stage}_wall"] for stage in wire.STAGES} == {-1}


@pytest.mark.parametrize("where", LOADS)
def test_finds_slow_decoding(tmp_path, where):
    ran = run(tmp_path, JPEG + load("Pictures()", LOADS[where]))
    check_sums(ran)
    assert {row.largest() for row in ran.detailed()} == {"decode"}
    assert {row["samples"] for row in ran.rows} == {4}
    assert {row["worker"] for row in ran.rows} == ({-1} if "training" in where else {0, 1})
    picture = (tmp_path / "picture.jpg").stat().st_size
    assert all(
        4 * picture <= row["bytes_read"] < 5 * picture for row in ran.rows[1:] if row["sequence"]
    )
    read = [frame["read"] for frame in ran.texts(wire.FILES)]
    assert "training" not in where or any("picture.jpg" in one for one in read)
