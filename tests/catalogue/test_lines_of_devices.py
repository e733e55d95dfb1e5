"""What a line is charged with that a device computes for it."""

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu
from gapless.catalogue.examples.parts import MS, STEPS, operator
from gapless.catalogue.rules.host.costly_line import costly_line
from gapless.model.change import Omit
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.study import ON_DEVICE, Site


def test_calls_of_the_model_stay_where_a_line_calls_the_same_operator() -> None:
    evidence = evidence_of(
        gpu(),
        {"busy.math": 19, "idle.host.python": 1},
        CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.4),
        HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 400),
        HotLine("training", "train.py", 36, "train", 120, 0.3),
        operator("aten::mul", calls=41, host_ms=1, device_ms=12.5),
        Site("aten::mul", "train.py", 20, "train", 20 * MS * STEPS, 20 * STEPS),
        Site(f"{ON_DEVICE}aten::mul", "train.py", 20, "train", 5 * MS * STEPS, STEPS),
    )
    (detection,) = costly_line(evidence)
    assert isinstance(detection, Detection)
    assert detection.changes == (Omit(("aten::mul",), keep=0.6),)  # 5 of 12.5 ms go
