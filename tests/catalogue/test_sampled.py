"""How long a step stands in a function, by sampled stacks, and how sure that is."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import kernel
from gapless.catalogue.queries import samples
from gapless.catalogue.rules.host import python_bound
from gapless.catalogue.rules.host.launch_bound import launch_bound
from gapless.model.change import HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HostCode
from gapless.model.run import CpuContention
from gapless.model.study import Site

_DIRECT_NS = Estimate(0.0, 1e6, 2e6)


def _estimate_held_ns(looks: int, *sites: Site) -> Estimate | None:
    code = HostCode("python", 0.2, 1.0, "train.py", 42, "main", None, 0.2, looks)
    evidence = evidence_of(example_facts.cpu(), {"busy.math": 16, "idle.host.python": 4}, *sites)
    return samples.estimate_held_ns(evidence, code, _DIRECT_NS)


def test_few_looks_leave_more_open_than_many_and_none_tell_nothing() -> None:
    few_looks, many_looks = _estimate_held_ns(20), _estimate_held_ns(2000)
    assert _estimate_held_ns(0) is None
    assert few_looks is not None
    assert many_looks is not None
    assert few_looks.mid == many_looks.mid == 3e6
    assert few_looks.high - few_looks.low > 2 * (many_looks.high - many_looks.low)


def test_one_look_that_stood_there_does_not_make_it_sure() -> None:
    code = HostCode("python", 1.0, 1.0, "train.py", 42, "main", None, 1.0, 1)
    evidence = evidence_of(example_facts.cpu(), {"busy.math": 10, "idle.host.python": 10})
    estimate = samples.estimate_held_ns(evidence, code, Estimate(0.0, 0.0, 0.0))
    assert estimate is not None
    assert estimate.low < 0.25 * estimate.high


def test_operators_of_other_lines_are_not_taken_off_what_stood_at_one() -> None:
    of_line = Site("aten::mul", "train.py", 30, "main", 20_000_000, 10)
    of_others = Site("aten::mm", "train.py", 30, "main", 150_000_000, 10)
    held_ns, held_with_others_ns = (
        _estimate_held_ns(2000, of_line),
        _estimate_held_ns(2000, of_line, of_others),
    )
    assert held_ns is not None
    assert held_with_others_ns is not None
    assert held_ns.mid == 2e6
    assert held_with_others_ns == _estimate_held_ns(2000)


def test_no_more_of_python_goes_than_was_sampled_where_a_silent_thread_may_wait() -> None:
    code = HostCode("python", 0.1, 1.0, "train.py", 42, "main", None, 0.1, 400)
    evidence = evidence_of(
        example_facts.cpu(),
        {"busy.math": 20, "idle.host.python": 2, "idle.host.unframed": 30},
        code,
        CpuContention(1.5, 0.0, 2),
    )
    detection = next(iter(python_bound.python_bound(evidence)))
    assert isinstance(detection, Detection)
    change = detection.changes[0]
    assert isinstance(change, HostChange)
    removed_ns = (1 - change.factor.mid) * evidence.per_step(*change.leaves)
    assert 5e6 < removed_ns < 8e6


def test_a_call_lies_at_the_line_where_it_was_sampled_not_where_its_function_begins() -> None:
    main = Location("train.py", 36, "main")
    calls = (
        CallLine("/a/train.py", 34, "main", "python3.11/copy.py", "deepcopy", 0.2),
        CallLine("/a/train.py", 36, "main", "python3.11/copy.py", "deepcopy", 0.01),
        CallLine("/a/train.py", 50, "save", "python3.11/copy.py", "deepcopy", 0.4),
    )
    evidence = evidence_of(example_facts.cpu(), {"busy.math": 10}, *calls)
    assert samples.find_called_line(evidence, main, "copy.deepcopy").line == 34
    assert samples.find_called_line(evidence, main, "json.dump") == main


def test_a_pass_aside_is_not_compiled() -> None:
    aside = CallLine("train.py", 30, "train", "torch/autograd/__init__.py", "grad", 0.1)
    kernels = kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise")
    for calls, n_fixes in (((), 2), ((aside,), 0)):
        (detection,) = launch_bound(
            evidence_of(
                example_facts.gpu(),
                {"busy.elementwise": 4, "idle.host.dispatch": 16},
                kernels,
                *calls,
            )
        )
        assert isinstance(detection, Detection)
        assert len(detection.helps) == n_fixes


@pytest.mark.parametrize(
    ("own_share", "other", "n_fixes"),
    [
        (0.05, "Decoder.forward", 0),  # compiled is the ResNet, and launched is its decoder
        (0.3, "Decoder.forward", 2),
        (0.0, "Decoder.forward", 2),  # where it is called is not known
        (0.05, "DistributedDataParallel.forward", 2),
    ],
)
def test_what_the_models_take_little_of_is_not_compiled(
    own_share: float, other: str, n_fixes: int
) -> None:
    is_shell = other.startswith("Distributed")
    file = "torch/nn/parallel/distributed.py" if is_shell else "model.py"
    calls = [
        CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.5),
        CallLine("train.py", 25, "train", file, other, 0.3),
        CallLine("model.py", 80, "Decoder.forward", "torch/nn/linear.py", "Linear.forward", 0.2),
    ]
    if own_share:
        calls.append(CallLine("train.py", 24, "train", "net.py", "ResNet.forward", own_share))
    (detection,) = launch_bound(
        evidence_of(
            example_facts.gpu(example_facts.model()),
            {"busy.elementwise": 4, "idle.host.dispatch": 16},
            kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise"),
            *calls,
        )
    )
    assert isinstance(detection, Detection)
    assert len(detection.helps) == n_fixes
    assert ("module.compile()" in (detection.no_remedy or "")) is (n_fixes == 0)
