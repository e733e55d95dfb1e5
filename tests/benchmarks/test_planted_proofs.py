"""How a cause that is named of a sound case is shown to cost something: what is changed."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.planted import changing, growing, proving, truth
from benchmarks.planted.altering import check_effects, propose_edits
from benchmarks.planted.changing import Subject, make_changes
from benchmarks.planted.counting import removing
from benchmarks.planted.running import COUNTING, ELEMENTS, OPERATORS, Alteration, Lane, RunError
from benchmarks.planted.scripts import scripts
from benchmarks.planted.working import PlantOptions
from gapless.catalogue.examples import example_facts
from gapless.catalogue.rules import RULES
from tests.store import drawing


def import_removal(name: str) -> Any:  # noqa: ANN401 - it enters trainings, without types
    return import_module(f"benchmarks.planted.counting.removing.{name}")


PARTS = ("evaluations", "functions", "notes", "padding", "reads", "settings")
evaluations, functions, notes, padding, reads, settings = map(import_removal, PARTS)

TWO_OPTIMIZERS = """
import torch

first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizers = [torch.optim.SGD(part.parameters(), 0.1) for part in (first, second)]
cut = []
for step in range(8):
    second.zero_grad()
    second(first(torch.ones(1, 2))).sum().backward()
    cut.append(first.weight.grad is None)
    optimizers[1].step()
    optimizers[0].zero_grad()
    second(first(torch.ones(1, 2))).sum().backward()
    optimizers[0].step()
    optimizers[0].zero_grad()
print(cut)
"""


FROZEN = """
import torch

first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(second.parameters(), 0.1)
cut = []
for step in range(8):
    first.weight.grad = None
    optimizer.zero_grad()
    second(first(torch.ones(1, 2))).sum().backward()
    cut.append(first.weight.grad is None)
    optimizer.step()
print(cut)
"""


def subject(code: str, name: str, tmp_path: Path, helps: tuple[str, ...] = ()) -> Subject:
    finding: dict[str, Any] = {"code": code, "name": name, "helps": helps}
    finding["where"] = {"file": "train.py", "line": 3}
    lane = Lane(0, (), "cpu", tmp_path)
    return Subject(next(iter(scripts().values())), finding, tmp_path, lane, 1.0, None)


@pytest.mark.parametrize(
    ("code", "name", "helps", "expected"),
    [
        ("G205", "unfused-optimizer", ("fused",), ["_apply_fixes"]),
        ("G305", "scalar-read", ("log-every",), ["_leave_out", "_apply_fixes"]),
        ("G501", "single-precision", ("tf32",), ["_apply_fixes", "_change_settings"]),
        ("G506", "unfused-elementwise", ("compile",), ["_apply_fixes"]),
        (
            "G506",
            "unfused-elementwise",
            (),
            ["_pass_over_memory", "change_lines", "_compile_function"],
        ),
        ("G510", "padded-batches", ("length-buckets",), ["_cut_padding", "_apply_fixes"]),
        ("G513", "needless-gradients", (), ["_leave_out"]),
        ("G202", "python-bound", (), ["_double_batches", "change_lines", "_compile_function"]),
        ("G219", "costly-line", (), ["change_lines"]),
        (
            "G703",
            "evaluation-in-the-way",
            ("evaluate-every",),
            ["_apply_fixes", "_apply_ceilings"],
        ),
    ],
)
def test_a_cause_is_taken_out_by_what_shows_it_best(
    code: str, name: str, helps: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    makers = [make.__name__ for make in make_changes(subject(code, name, tmp_path, helps))]
    assert makers == ["_apply_remedies", *expected]


def changes_of(code: str, tmp_path: Path, source: str, **finding: object) -> dict[str, str | None]:
    """Return what the changes at lines make of a source, by their names."""
    named = subject(code, "any", tmp_path)
    named.finding.update(finding)  # type: ignore[attr-defined]
    sources: dict[str, str | None] = {}
    for change in changing.change_lines(named):
        (tmp_path / "train.py").write_text(source)
        assert change.edit is not None
        sources[change.name] = (
            (tmp_path / "train.py").read_text() if change.edit(tmp_path) else None
        )
    return sources


def test_statements_go_or_are_done_twice_all_that_a_sentence_names(tmp_path: Path) -> None:
    source = "def log(a):\n    print(a)\n    print(2 * a)\n    return a\n"
    location = {"file": "train.py", "line": 3}
    sources = changes_of("G219", tmp_path, source, where=location)
    assert sources == {
        "the function twice": None,
        "without the statement": source.replace("print(2 * a)", "pass"),
        "the statement twice": source.replace(
            "    print(2 * a)", "    (print(2 * a))\n    print(2 * a)"
        ),
    }
    sentence = "train.py:2-3 takes long"
    sources = changes_of("G219", tmp_path, source, where=location, summary=sentence)
    assert sources["without the statement"] == "def log(a):\n    pass\n    pass\n    return a\n"
    sentence = "train.py:3-4 takes long"
    sources = changes_of("G219", tmp_path, source, where=location, summary=sentence)
    assert sources["without the statement"] is None


def test_of_a_cause_that_is_a_part_of_it_the_function_is_done_twice_or_its_loop(
    tmp_path: Path,
) -> None:
    source = "def mix(rows):\n    for row in rows:\n        a = row\n"
    sources = changes_of("G202", tmp_path, source)
    assert "@__import__" in (sources["the function twice"] or "")
    loop = "    for row in rows:\n        a = row\n"
    assert sources["the loop twice"] == source.replace(loop, loop + loop)
    trains = source + "    loss.backward()\n"
    assert changes_of("G202", tmp_path, trains)["the function twice"] is None
    named = {change.name: change for change in changing.change_lines(subject("G202", "", tmp_path))}
    assert named["the function twice"].tells_of_operators == "false"
    assert named["the loop twice"].tells == "false"
    assert named["the loop twice"].without_cause(1.5, 1.0) == pytest.approx(0.5)


def test_fixes_are_those_that_can_be_applied_and_loaders_make_larger_batches() -> None:
    run_facts = example_facts.cpu(example_facts.loader(batch_size=4))
    edits = dict(propose_edits(("no-workers", "more-workers", "tf32"), run_facts))
    assert list(edits) == ["more-workers"]
    (edit,) = growing.double_batches(run_facts)
    assert (edit["name"], edit["value"]) == ("batch_size", 8)


def test_batches_are_doubled_where_the_command_or_the_source_says_their_size(
    tmp_path: Path,
) -> None:
    assert growing.double_arguments(["-b", "8", "--lr", "8"]) == ("-b", "16", "--lr", "8")
    assert growing.double_arguments(["--batch-size=8", "8"]) == ("--batch-size=16", "8")
    assert growing.double_arguments(["--test-batch-size", "8"]) is None
    source = """batch_size, BSZ = 2, 3
BATCH_SIZE = 4  # of training
parser.add_argument("--batch-size", type=int, default=8)
loader = DataLoader(data, batch_size=16, shuffle=True)
config = {"batch_size": 32, "epochs": 3}
def make(width=3, *, bsz=64): eval_batch_size = 5
"""
    doubled = source
    for size in (64, 32, 16, 8, 4):
        doubled = doubled.replace(f" {size} ", f" {2 * size} ")
        for sign in ",)":
            doubled = doubled.replace(f"={size}{sign}", f"={2 * size}{sign}")
            doubled = doubled.replace(f": {size}{sign}", f": {2 * size}{sign}")
    (tmp_path / "train.py").write_text(source)
    assert growing.double_files(tmp_path)
    assert (tmp_path / "train.py").read_text() == doubled
    assert growing.double_constants("epochs = 3\n") is None


def test_batches_that_did_not_grow_show_nothing(tmp_path: Path) -> None:
    for name, elements in (("grown", 40), ("plain", 20), ("same", 21)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ELEMENTS).write_text(str(elements))
    growing.check_growth(tmp_path / "grown", tmp_path / "plain")
    for name in ("same", "nowhere"):
        with pytest.raises(RunError, match="elements"):
            growing.check_growth(tmp_path / name, tmp_path / "plain")


def test_an_altered_script_has_the_recorder_and_so_has_the_one_beside_it(tmp_path: Path) -> None:
    script, edit = next(iter(scripts().values())), {"kind": "set_env", "name": "A", "value": "1"}
    alterations = {tmp_path / "a": Alteration((edit,)), tmp_path / "b": Alteration(())}
    lane = Lane(0, (), "cpu", tmp_path, alterations=alterations)
    first, second, plain = (lane.counting_environment(script, tmp_path / name) for name in "abc")
    assert ("A" in first, "A" in second) == (True, False)
    assert "GAPLESS_OPTIONS" in second
    assert "GAPLESS_OPTIONS" not in plain
    assert str(COUNTING) in first["PYTHONPATH"]


def test_an_edit_without_effect_shows_nothing(tmp_path: Path) -> None:
    edits = ({"kind": "set_argument"}, {"kind": "set_env"}, {"kind": "wrap"})
    times_by_edit = {0: 3, 2: 0}
    facts = [drawing.fact("edit", key, edit=key, times=n) for key, n in times_by_edit.items()]
    (tmp_path / "rank0.log").write_bytes(b"".join([drawing.process(), *facts]))
    check_effects(tmp_path, Alteration(edits[:2]))
    with pytest.raises(RunError, match="wrap"):
        check_effects(tmp_path, Alteration(edits))
    with pytest.raises(RunError, match="needless-gradients"):
        check_effects(tmp_path, Alteration(removal="needless-gradients"))


def run_with(tmp_path: Path, source: str, **variables: str) -> str:
    """Run a training as it is run to be measured; give what it printed."""
    pytest.importorskip("torch")
    environment = {"PYTHONPATH": str(COUNTING), "PLANTED_NOTES": str(tmp_path)}
    environment |= {"PLANTED_STREAM": str(tmp_path / "stream"), **variables}
    process = subprocess.run(
        [sys.executable, "-c", source],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "stream").stat().st_size
    return process.stdout.strip()


def test_gradients_that_no_optimizer_steps_with_are_left_out_once_that_is_known(
    tmp_path: Path,
) -> None:
    printed = run_with(tmp_path, TWO_OPTIMIZERS, PLANTED_REMOVAL="needless-gradients")
    assert printed == str([False] * 6 + [True] * 2)
    check_effects(tmp_path, Alteration(removal="needless-gradients"))


def test_gradients_that_no_optimizer_holds_are_left_out_and_elements_are_counted(
    tmp_path: Path,
) -> None:
    variables = {"PLANTED_REMOVAL": "needless-gradients", "PLANTED_WATCH": ELEMENTS}
    printed = run_with(tmp_path, FROZEN, **variables)
    assert printed == str([False] * 6 + [True] * 2)
    assert (tmp_path / ELEMENTS).read_text() == str(4 * (2 + 2))  # of four steps, of two models


def test_a_function_is_done_twice_with_its_backward_pass_and_within_itself_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PLANTED_NOTES", str(tmp_path))
    monkeypatch.setattr(notes, "_NOTED", set[str]())
    calls: list[int] = []

    @functions.twice
    def halve(depth: int, values: object) -> object:
        calls.append(depth)
        return halve(depth - 1, values) if depth else {"a": (values, 1)}

    assert halve(1, [3]) == {"a": ([3], 1)}
    assert calls == [1, 0, 1, 0]
    assert not (tmp_path / OPERATORS).exists()
    weight = torch.ones(2, requires_grad=True)
    passed = []
    result = halve(0, weight * 2)["a"][0]
    result.register_hook(passed.append)
    result.sum().backward()
    assert weight.grad.tolist() == [2, 2]
    functions.twice(torch.add)(weight, 1)
    assert (tmp_path / OPERATORS).exists()


def test_what_stands_in_for_a_function_passes_over_memory_as_often_as_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PLANTED_NOTES", str(tmp_path))
    calls: list[int] = []

    def gate(values: object, scale: float) -> object:
        calls.append(1)
        return torch.sigmoid(values) * values * scale

    gated = functions.passes(gate)
    assert gated(torch.ones(3), 1.0)[0] != 0.25
    assert gated(torch.ones(3), scale=1.0).tolist() == [0.25] * 3
    assert functions.passes(torch.nn.functional.mse_loss)(torch.ones(3), torch.ones(3)) == 0
    assert len(calls) == 1
    with pytest.raises(TypeError, match="as large"):
        functions.passes(torch.flatten)(torch.ones(3, 1))


def test_batches_are_cut_as_long_as_they_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PLANTED_NOTES", str(tmp_path))
    batch = {"ids": torch.ones(4, 20), "lengths": torch.tensor([20, 3, 9, 2]), "kind": [1, 2]}
    batch["mask"] = torch.ones(4, 1, 20, 20)
    cut = padding.cut(batch, rows=4, filled=0.5, dimensions=2)
    assert cut["ids"].shape == (4, 10)
    assert cut["mask"].shape == (4, 1, 10, 10)
    assert cut["lengths"].tolist() == [10, 3, 9, 2]
    assert cut["kind"] == [1, 2]
    assert padding.cut(torch.ones(3, 20), 4, 0.5, 2).shape == (3, 20)


def test_what_is_read_of_a_device_is_read_a_few_times_then_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PLANTED_NOTES", str(tmp_path))

    def is_scalar(tensor: Any) -> bool:  # noqa: ANN401 - torch is imported above
        return tensor.dim() == 0

    read = reads.remember(torch.Tensor.item, is_scalar)
    values = [read(torch.tensor(number)) for number in range(8)]
    assert values == [0, 1, 2, 3, 4, 4, 4, 4]
    assert [read(torch.tensor([number])) for number in range(8)] == list(range(8))


class Checked:
    """As a distribution of torch's is made."""

    def __init__(self, shape: object = None, *, validate_args: bool | None = None) -> None:
        self.made = shape, validate_args

    @staticmethod
    def set_default_validate_args(value: object) -> None:
        """Take what it is to be."""


class Model:
    """As a module of torch's is set to train or to evaluate, with one below it."""

    def __init__(self, *below: "Model") -> None:
        self.below, self.training = below, True

    def train(self, mode: object = True) -> object:  # noqa: FBT002 - as torch has it
        self.training = bool(mode)
        for model in self.below:
            model.train(mode)
        return self


def test_distributions_are_not_checked_and_evaluations_keep_no_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PLANTED_NOTES", str(tmp_path))
    monkeypatch.setattr(Checked, "__init__", Checked.__init__)
    monkeypatch.setattr(Model, "train", Model.train)
    module = SimpleNamespace(Distribution=Checked, Module=Model)
    for act in (*settings.CHECK_ACTS.values(), *evaluations.ACTS.values()):
        act(module)
    assert Checked((2,), validate_args=True).made == ((2,), False)
    model, modes = Model(Model()), list[bool]()
    for is_training in (True, False, False, True):
        model.train(is_training)
        modes.append(torch.is_grad_enabled())
    assert modes == [True, False, False, True]


def test_a_proof_ends_where_what_was_measured_decides(tmp_path: Path) -> None:
    options = PlantOptions(None, tmp_path)
    trial = proving.Trial(subject("G219", "", tmp_path), tmp_path, options, 0.05, {})
    change = changing.Change("any")
    alike, apart = (0.004, 0.0, 0.002, -0.001), (0.04, -0.02, 0.03, -0.01)
    for gains, is_enough in (
        ((0.5, 0.5), True),
        ((0.08, 0.0), False),
        ((0.5,), False),
        (alike[:3], False),
        (alike, True),
        (apart, False),
    ):
        pairs = [truth.Pair(1 - gain, 1.0, 0.0, start) for start, gain in enumerate(gains)] * 3
        assert trial.suffices(change, truth.truth_of(pairs, 3, 1.0)) == is_enough


def test_a_turn_in_which_others_worked_is_no_gain_of_its_own() -> None:
    times = (
        (1.02, 0),
        (0.98, 0),
        (1.9, 0),
        (0.6, 0),
        (1.0, 1),
        (1.1, 1),
    )  # done twice, and once: 1.0
    pairs = [truth.Pair(twice_s, 1.0, 0.0, start) for twice_s, start in times]
    gain = proving.gain_of(truth.truth_of(pairs, 3, 1.0), lambda twice, once: 2 * once - twice)
    assert gain.healthy_s == pytest.approx([0.9665] * 4 + [0.9512] * 2, abs=1e-3)


def test_what_is_left_out_is_known_by_the_slug_of_its_cause() -> None:
    assert set(removing.REMOVALS) == changing.REMOVALS  # pyright: ignore[reportUnknownArgumentType]
    assert {rule.name for rule in RULES} >= changing.REMOVALS
