"""What a line is charged with that a device computes for it."""

import pytest

from gapless.catalogue.examples.evidence import evidence_of, with_recorded
from gapless.catalogue.examples.example_facts import gpu
from gapless.catalogue.examples.parts import MS, STEPS, kernel, operator
from gapless.catalogue.queries.device_waits import own_work_share
from gapless.catalogue.queries.step_lines import find_costly_lines
from gapless.catalogue.rules.host.costly_line import costly_line
from gapless.model.change import HostChange, Omit
from gapless.model.edit import Location
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.study import ON_DEVICE, Site

BACKWARD = CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.4)
HOST_CODE = HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 400)


def test_calls_of_the_model_stay_where_a_line_calls_the_same_operator() -> None:
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        BACKWARD,
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 120, 0.3),
        operator("aten::mul", calls=41, host_ms=1, device_ms=12.5),
        Site("aten::mul", "train.py", 20, "train", 20 * MS * STEPS, 20 * STEPS),
        Site(f"{ON_DEVICE}aten::mul", "train.py", 20, "train", 5 * MS * STEPS, STEPS),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    assert detection.changes == (Omit(("aten::mul",), keep=0.6),)  # 5 of 12.5 ms go


def test_an_operator_within_one_of_its_name_is_no_call_of_others() -> None:
    name = "aten::logsumexp"
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        BACKWARD,
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 120, 0.3),
        CallLine("train.py", 22, "train", "torch/_jit_internal.py", "boolean_dispatch.fn", 0.02),
        operator(name, calls=40, host_ms=2, device_ms=16),
        Site(name, "train.py", 20, "train", 2 * MS * STEPS, 40 * STEPS),
        Site(f"{ON_DEVICE}{name}", "train.py", 20, "train", 8 * MS * STEPS, 20 * STEPS),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    assert detection.changes == (Omit((name,), keep=0.0),)
    assert detection.location == Location("train.py", 20, "train")  # a pooling is another call


def test_a_device_no_longer_works_for_what_a_line_no_longer_calls() -> None:
    def price(work_ms: int) -> float:
        evidence = evidence_of(
            gpu(),
            {"busy.math": 10, "idle.host.dispatch": 10},
            CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.2),
            HOST_CODE,
            HotLine("training", "train.py", 36, "train", 320, 0.8),
            Site(f"{ON_DEVICE}aten::mm", "train.py", 20, "train", work_ms * MS * STEPS, STEPS),
        )
        (detection,) = costly_line(evidence)
        assert isinstance(detection, Detection)
        (change,) = detection.changes
        assert isinstance(change, HostChange)
        return evidence.share(*change.leaves) * (1 - change.factor.mid)

    assert (price(0), price(4)) == pytest.approx((0.475, 0.7))


@pytest.mark.parametrize(("short_ms", "low", "mid"), [(9.0, 0.45, 0.45), (1.0, 0.05, 0.25)])
def test_what_is_launched_beside_a_line_is_at_most_the_longest_kernels(
    short_ms: float, low: float, mid: float
) -> None:
    line = HotLine("training", "train.py", 36, "train", 360, 0.9)
    evidence = evidence_of(
        gpu(),
        {"busy.math": 10, "idle.host.dispatch": 10},
        CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.05),
        HOST_CODE,
        line,
        kernel("im2col", 900, short_ms),
        kernel("gemm", 100, 10 - short_ms),
    )
    (step_line,) = find_costly_lines(evidence)
    assert own_work_share(evidence, step_line).low == pytest.approx(low)
    assert own_work_share(evidence, step_line).mid == pytest.approx(mid)


def test_a_line_is_named_where_no_window_shows_what_the_device_did() -> None:
    evidence = evidence_of(
        gpu(),
        {"busy.math": 1, "idle.unknown": 19},
        CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.2),
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 320, 0.6),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    (change,) = detection.changes
    assert isinstance(change, HostChange)
    assert 1 - change.factor.high < 0.5 * (1 - change.factor.mid)  # it may have worked meanwhile


@pytest.mark.parametrize("is_hook", [False, True])
@pytest.mark.parametrize(("copies", "line_ms"), [("copy.d2h", 5), ("copy.h2d", 2)])
def test_a_line_waits_no_longer_than_its_device_computes(
    copies: str, line_ms: int, *, is_hook: bool
) -> None:
    line = HotLine("training", "train.py", 34, "train", 120, 0.3, waited=0.2)
    evidence = evidence_of(
        gpu(),
        {"busy.math": 1, copies: 3, "idle.host.python": 16},
        BACKWARD,
        HOST_CODE,
        line,
    )
    detections = costly_line(with_recorded(evidence, hook_lines=(line,) if is_hook else ()))
    summaries = [cause.summary for cause in detections if isinstance(cause, Detection)]
    assert summaries[0].startswith(f"train.py:34 takes {line_ms}.0 ms of each 20.0 ms step")


def test_what_a_line_waits_goes_with_it_where_its_device_has_time() -> None:
    def price(busy_ms: int) -> float:
        evidence = evidence_of(
            gpu(),
            {"busy.math": busy_ms, "idle.host.python": 20 - busy_ms},
            BACKWARD,
            HOST_CODE,
            HotLine("training", "train.py", 34, "train", 240, 0.6, waited=0.2),
        )
        (detection,) = costly_line(evidence)
        assert isinstance(detection, Detection)
        (change,) = detection.changes
        assert isinstance(change, HostChange)
        return evidence.share(*change.leaves) * (1 - change.factor.mid)

    assert price(6) == pytest.approx(0.6)
    assert price(12) < 0.45


def test_a_line_goes_with_all_that_the_device_computes_for_it() -> None:
    names = "aten::pow", "aten::sub"
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        BACKWARD,
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 120, 0.3),
        *(operator(name, calls=4, host_ms=1, device_ms=1) for name in names),
        *(Site(name, "train.py", 20, "train", MS * STEPS, 4 * STEPS) for name in names),
        *(
            Site(f"{ON_DEVICE}{name}", "train.py", 20, "train", MS * STEPS, 4 * STEPS)
            for name in names
        ),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    assert detection.changes == tuple(Omit((name,), keep=0.0) for name in names)
    assert detection.summary.startswith("The device computes aten::pow 4× and 1 other operator for")


@pytest.mark.parametrize(
    ("line", "begin", "is_priced"),
    [(36, 20, True), (24, 20, False), (36, 80, False)],  # below, above; of the same name
)
def test_a_line_goes_with_what_its_function_computes_below_the_backward_pass(
    line: int, begin: int, *, is_priced: bool
) -> None:
    squares, sums = "aten::square", "aten::sum"
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        BACKWARD,
        CallLine("train.py", 25, "train", "model.py", "Net.forward", 0.2),
        HOST_CODE,
        HotLine("training", "train.py", line, "train", 120, 0.3),
        operator(squares, calls=1, host_ms=1, device_ms=5),
        operator(sums, calls=1, host_ms=1, device_ms=4),
        Site(f"{ON_DEVICE}{squares}", "train.py", 20, "train", 5 * MS * STEPS, STEPS),
        Site(f"{ON_DEVICE}{sums}", "train.py", begin, "train", 4 * MS * STEPS, STEPS),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    assert (Omit((sums,), keep=0.0) in detection.changes) is is_priced


def test_work_that_the_thread_waits_for_elsewhere_goes_off_the_plain_step() -> None:
    evidence = evidence_of(
        gpu(),
        {"busy.math": 16, "idle.host.dispatch": 4},
        BACKWARD,
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 20, 0.05),
        HotLine("training", "loss.py", 12, "loss", 140, 0.35, waited=0.3),  # values are read
        operator("aten::lgamma", calls=50, host_ms=1, device_ms=4),
        Site("aten::lgamma", "train.py", 20, "train", MS * STEPS, 50 * STEPS),
        Site(f"{ON_DEVICE}aten::lgamma", "train.py", 20, "train", 4 * MS * STEPS, 50 * STEPS),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    (change,) = detection.changes
    assert isinstance(change, HostChange)
    assert change.factor.mid == pytest.approx(1 - 4 / 16)
    assert change.factor.high == pytest.approx(1 - 2 / 16)


def test_a_line_that_launches_kernel_by_kernel_is_where_the_device_works_for() -> None:
    name = "aten::pixel_shuffle"

    def line(n_calls: int, host_ms: int) -> int | None:
        evidence = evidence_of(
            gpu(),
            {"busy.math": 19, "idle.host.python": 1},
            BACKWARD,
            HOST_CODE,
            HotLine("training", "train.py", 36, "train", 80, 0.2),
            operator(name, calls=n_calls, host_ms=host_ms, device_ms=8),
            Site(name, "train.py", 20, "train", host_ms * MS * STEPS, n_calls),
            Site(
                f"{ON_DEVICE}aten::pixel_shuffle", "train.py", 20, "train", 8 * MS * STEPS, n_calls
            ),
        )
        (detection,) = costly_line(evidence)
        assert isinstance(detection, Detection)
        assert detection.location is not None
        return detection.location.line

    assert line(150 * STEPS, 3) == 36
    assert (
        line(STEPS, 1) == 20
    )  # the line takes 4 ms, for something else: where the function begins


@pytest.mark.parametrize(("line", "is_named"), [(28, False), (38, True)])
def test_a_call_above_the_backward_pass_may_be_a_loss_whatever_stands_below(
    line: int, is_named: bool
) -> None:
    name = "aten::cdist"
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        BACKWARD,
        HOST_CODE,
        HotLine("training", "train.py", 36, "train", 120, 0.3),
        CallLine("train.py", line, "train", "torch/functional.py", "cdist", 0.02),
        operator(name, calls=1, host_ms=1, device_ms=1.3),
        Site(f"{ON_DEVICE}{name}", "train.py", 20, "train", round(1.3 * MS * STEPS), STEPS),
    )
    detections = costly_line(evidence)
    assert bool(detections) is is_named
