"""What ``gapless export`` does in the training: which dimensions are free, parity, refusals."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from gapless import wire
from gapless.payload.exporting import failures, formats, parity, session, weights
from gapless.payload.exporting.dimensions import find_batch, find_varying
from gapless.payload.exporting.formats import UnavailableError
from gapless.payload.exporting.observation import ForwardRecord
from gapless.payload.exporting.subject import CaughtModel
from gapless.payload.feeding.result import Result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        return {"scores": self.layer(x) * scale, "mean": self.layer(x).mean()}


class Branching(Net):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        if x.sum() > 0:
            return {"scores": self.layer(x)}
        return {"scores": x * scale}


class Reading(Net):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        n = int(x.mean())
        return {"scores": sum([x for _ in range(n)], x * scale)}


class Mixing(Net):
    """A model whose rows depend on one another."""

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        return {"scores": (x - x.mean(0)) * scale}


Call = tuple[tuple[torch.Tensor, ...], dict[str, Any]]


def runner(model: nn.Module) -> Callable[..., Any]:
    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        return model(*args, **kwargs)

    return run


def add_up(args: tuple[torch.Tensor], _: dict[str, Any]) -> torch.Tensor:
    return args[0].cumsum(0)


def subject_of(module: nn.Module, *shape: int) -> CaughtModel:
    module.eval()
    return CaughtModel(module, ((torch.randn(*shape),), {}), [], None)


def test_dimensions_that_varied_are_free() -> None:
    record = ForwardRecord(Net())
    for rows, columns in ((4, 7), (4, 9), (2, 7)):
        record.note((torch.zeros(rows, columns, 3), 5), {})
    record.note((torch.zeros(1, 1, 1),), {"other": 1})  # of another form: not looked at
    assert record.calls == 4
    assert find_varying(record.shapes) == {0: {0, 1}}
    args, _ = record.example
    assert args[0].shape == (4, 7, 3)


def test_an_example_is_as_it_was_before_the_call() -> None:
    record = ForwardRecord(Net())
    x = torch.zeros(2)
    record.note((x,), {})
    x += 1
    assert record.example[0][0].tolist() == [0.0, 0.0]


def test_the_batch_is_found_by_trying_fewer_rows() -> None:
    model = Net().eval()
    example: Call = ((torch.randn(6, 4),), {})
    batch, _ = find_batch(runner(model), example)
    assert batch is not None
    assert (batch.axis, batch.size) == (0, 6)
    more = batch.resize(example, 9)[0][0]
    assert torch.equal(more[6:], more[:3])
    second, _ = find_batch(add_up, ((torch.randn(5, 6, 2),), {}))
    assert second is not None  # a row of time depends on those before it alone


def test_rows_that_depend_on_one_another_are_no_batch() -> None:
    model = Mixing().eval()
    run = runner(model)
    batch, why = find_batch(run, ((torch.randn(6),), {}))
    assert batch is None
    assert "depends on other rows" in why
    batch, why = find_batch(run, ((3,), {}))
    assert batch is None
    assert "no tensor" in why


def test_the_worst_output_is_told() -> None:
    own = {"a": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": torch.arange(3)}
    near = {"a": own["a"] * (1 + 1e-6), "b": own["b"]}
    assert parity.compare_outputs(own, near)["within"]
    far = {"a": own["a"].clone(), "b": own["b"]}
    far["a"][1, 0] += 1
    worst = parity.compare_outputs(own, far)
    assert not worst["within"]
    assert (worst["output"], worst["at"], worst["own"], worst["other"]) == (
        "output['a']", [1, 0], 3.0, 4.0,
    )  # fmt: skip
    assert worst["share"] == pytest.approx(0.25)
    off = parity.compare_outputs(own, {"a": own["a"], "b": own["b"] + 1})
    assert (off["within"], off["share"]) == (False, 1.0)


@pytest.mark.parametrize(
    ("other", "within"),
    [
        (torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([1.0, 2.0]), False),
        (torch.tensor([1.0]), False),
        (torch.tensor([float("nan"), float("nan")]), False),
    ],
)
def test_what_is_no_number_must_be_in_the_same_places(other: torch.Tensor, within: bool) -> None:
    assert parity.compare_tensors(torch.tensor([1.0, float("nan")]), other)["within"] is within


def test_formats_of_fewer_digits_are_tolerated_more() -> None:
    own = torch.linspace(1, 2, 100)
    for dtype, error in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
        assert parity.compare_tensors(own.to(dtype), (own * (1 + error)).to(dtype))["within"]
    assert not parity.compare_tensors(own, own * 1.001)["within"]
    assert parity.compare_tensors(own, own * 1.001, is_short=True)["within"]


@pytest.mark.parametrize(
    ("kind", "construct", "source"),
    [
        (Branching, "control flow that depends on data", "if x.sum() > 0:"),
        (Reading, "a number read out of a tensor", "n = int(x.mean())"),
    ],
)
def test_a_refusal_names_the_users_line(kind: type[nn.Module], construct: str, source: str) -> None:
    subject = subject_of(kind(), 6, 4)
    with pytest.raises(Exception, match="data-dependent") as raised:
        subject.capture()
    failure = failures.describe(raised.value)
    assert failure["construct"] == construct
    assert failure["source"] == source
    assert Path(failure["file"]).name == Path(__file__).name
    lines, first = inspect.getsourcelines(kind.forward)
    assert source in lines[failure["line"] - first]
    assert failure["help"]


def test_errors_are_told_without_their_colours() -> None:
    failure = failures.describe(ValueError("Failed. \x1b[96mThis is step 2/3\x1b[0m"))
    assert failure["error"] == "ValueError: Failed. This is step 2/3"


def test_an_error_of_nobodys_has_no_line() -> None:
    failure = failures.describe(RuntimeError(""))
    assert failure["error"] == "RuntimeError"
    assert (failure["file"], failure["construct"], failure["source"]) == (None, None, None)


class Ways(NamedTuple):
    document: dict[str, Any]
    files: list[str]


def export(
    subject: CaughtModel, folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str
) -> Ways:
    def refuse(_subject: CaughtModel) -> formats.Way:
        raise UnavailableError("not in this test: a compiler takes its time")

    monkeypatch.setattr(formats, "make_compiled", refuse)
    plan = {"to": names, "seconds": 0.05, "folder": str(folder / "export")}
    session.export(subject, plan, Result(str(folder)))
    document = json.loads((folder / wire.DATA_RESULT).read_text())
    return Ways(document, sorted(path.name for path in (folder / "export").iterdir()))


def test_a_program_is_written_read_again_compared_and_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, files = export(subject_of(Net(), 6, 4), tmp_path, monkeypatch, "torch-export")
    assert files == ["model.pt2"]
    assert document["complete"]
    assert set(document["series"]) == {"1", "6", "8"}
    entry = document["subject"]["ways"]["torch-export"]
    assert entry["parity"]["within"]
    assert document["subject"]["inputs"][0]["free"] == [0]
    assert all(len(rounds) >= 3 for rounds in document["series"]["8"].values())
    assert "compiled" not in document["series"]["8"]


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("onnx", "model.onnx"),
        pytest.param("aoti", "model.aoti.pt2", marks=pytest.mark.slow),  # compiles for seconds
    ],
)
def test_what_runs_without_torch_or_python_gives_the_same(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    document, files = export(subject_of(Net(), 6, 4), tmp_path, monkeypatch, name)
    entry = document["subject"]["ways"][name]
    assert entry["failure"] is None
    assert file in files
    assert entry["parity"]["within"]
    assert entry["parity"]["share"] < 1e-5
    assert all(len(document["series"][size][name]) >= 3 for size in ("1", "6", "8"))


def test_what_is_refused_keeps_none_of_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, files = export(
        subject_of(Branching(), 6, 4), tmp_path, monkeypatch, "torch-export", "tensorrt"
    )
    ways = document["subject"]["ways"]
    assert files == []
    assert ways["torch-export"]["failure"]["source"] == "if x.sum() > 0:"
    assert "GPU of NVIDIA" in ways["tensorrt"]["why"]
    assert "eager" in next(iter(document["series"].values()))


def test_outputs_that_cannot_be_compared_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [{"within": True}]  # of the model with itself

    def compare(*_: object, **__: object) -> dict[str, Any]:
        if not answers:
            raise NotImplementedError("of a sparse layout")
        return answers.pop()

    subject = subject_of(Net(), 6, 4)
    monkeypatch.setattr(parity, "compare_outputs", compare)
    document, _ = export(subject, tmp_path, monkeypatch, "torch-export")
    entry = document["subject"]["ways"]["torch-export"]
    assert not entry["parity"]["within"]
    assert "cannot be compared: NotImplementedError: of a sparse layout" in entry["parity"]["why"]


def test_old_torch_reads_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "best.pt")
    torch.save(Net().state_dict(), path)
    monkeypatch.delattr(torch.compiler, "set_stance")
    with pytest.raises(weights.WeightsError, match=r"may run code of a checkpoint"):
        weights.load_file(Net(), path)


def test_weights_are_found_below_shells_and_lacks_are_named(tmp_path: Path) -> None:
    model, trained = Net(), Net()
    state = {f"module._orig_mod.{name}": value for name, value in trained.state_dict().items()}
    path = str(tmp_path / "best.pt")
    torch.save({"epoch": 3, "model": state, "optimizer": {"state": {}}}, path)
    weights.load_file(model, path)
    assert torch.equal(model.layer.weight, trained.layer.weight)
    torch.save({"layer.weight": trained.layer.weight.data}, path)
    with pytest.raises(weights.WeightsError, match=r"lacks 1 .* 2 weights: layer\.bias"):
        weights.load_file(model, path)
    Path(path).write_bytes(b"rubbish")
    with pytest.raises(weights.WeightsError, match="cannot be read"):
        weights.load_file(model, path)
    torch.save([1], path)
    with pytest.raises(weights.WeightsError, match="no dictionary of tensors"):
        weights.load_file(model, path)
    circle: dict[str, Any] = {}
    circle["model"] = circle
    torch.save(circle, path)
    with pytest.raises(weights.WeightsError, match="cannot be read: RecursionError"):
        weights.load_file(model, path)
