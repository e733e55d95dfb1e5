"""Numbers that the host reads back from the device in the step."""

from collections.abc import Iterator
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied, operator, source
from gapless.model.change import Omit
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.model.tables import Line

READ: Final = "aten::_local_scalar_dense"
CALLS: Final = ("aten::item", "aten::is_nonzero")  # the outermost: what is asked for by name
SCALED: Final = "aten::_amp_update_scale_"  # once a step of a GradScaler, which reads one number
_RARE: Final = 0.01  # a step


@rule(
    "G305",
    "scalar-read",
    since="0.1",
    figures=[
        Figure(
            "Twenty numbers a step, in a step that the host can hardly keep up with",
            "The host reads 20 numbers a step back from the device (item, float, bool, print) and "
            "waits for it each time; that leaves the device idle for 8.2 ms of each 18.2 ms step.",
            stated(
                examples.gpu(),
                {"busy.elementwise": 10, "idle.sync.return": 0.2, "idle.sync.refill": 8},
                operator(READ, calls=20, host_ms=9),
                copied("DtoH", "pageable", calls=20, ms=0.04, mib=0),
            ),
        ),
        Figure(
            "The loss, at the end of a step of matrix products: seen, and worth hardly anything",
            "The host reads 1 number a step back from the device (item, float, bool, print) and "
            "waits for it each time; that leaves the device idle for 0.1 ms of each 100.1 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 100, "idle.sync.refill": 0.1},
                operator(READ, calls=1, host_ms=80),
                copied("DtoH", "pageable", calls=1, ms=0.002, mib=0),
            ),
        ),
        Figure(
            "Numbers of tensors that lie on the host",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 100},
                operator(READ, calls=20, host_ms=0.05),
            ),
        ),
        Figure(
            "One number, and it is the GradScaler's",
            None,
            stated(
                examples.gpu(examples.precision(scaler=True)),
                {"busy.tc_math": 100, "idle.sync.refill": 0.1},
                operator(READ, calls=1, host_ms=80),
                operator(SCALED, calls=1, host_ms=0.02),
                copied("DtoH", "pageable", calls=1, ms=0.002, mib=0),
            ),
        ),
        Figure(
            "A tensor is printed",
            "The host reads 12 numbers a step back from the device (item, float, bool, print) and "
            "waits for it each time; that leaves the device idle for 1.0 ms of each 11.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 10, "idle.sync.refill": 1},
                operator(READ, calls=12, host_ms=2),
                copied("DtoH", "pageable", calls=12, ms=0.02, mib=0),
                source("torch/_tensor_str.py", 650, "_str", host=2),
            ),
        ),
    ],
)
def scalar_read(seen: Seen) -> Loss | None:
    """Recognise that the host asks the device for single numbers, and waits for each.

    ## Why it costs time
    ``item()``, ``float(tensor)``, ``if tensor:``, ``print(tensor)`` return when the device has
    done all that was asked of it so far. Then it has nothing to do until the host has launched new
    work: for as long as the host needs to get ahead again. Where steps are long and launches short
    that is nearly nothing; twenty such calls in a row may cost no more than one.

    ## How it is measured
    Calls are counted where a copy back from the device belongs to them: numbers of tensors on the
    host cost nothing. Their price is found by replaying the steps without them, never by their
    number. The read of a GradScaler is a cause of its own.
    """
    back = windowed.copies(seen, "DtoH").count
    read = min(windowed.calls(seen, READ).count, back)
    scaled = min(windowed.calls(seen, SCALED).count, read)
    own = read - scaled
    if own < _RARE:
        return None
    lost = seen.per_step("idle.sync")
    printed = any(True for _ in printing(seen))
    plural = "numbers" if windowed.times(own) != "1" else "number"
    return scalar_read.loss(
        f"The host reads {windowed.times(own)} {plural} a step back from the device (item, float, "
        "bool, print) and waits for it each time; that leaves the device idle for "
        f"{windowed.of_step(seen, lost)}.",
        Omit(CALLS, keep=scaled / read),
        evidence=(
            Measure("numbers read back, a step", own, ""),
            Measure("waited for, a step", windowed.calls(seen, READ).host_ns, "ns"),
            Measure("idle afterwards, a step", lost, "ns"),
        ),
        helps=("log-every",) if printed else (),
        no_remedy=(
            "add such numbers up on the device (total += loss.detach()) and read them every so "
            "many steps; decide with torch.where, not with if"
        ),
    )


def printing(seen: Seen) -> Iterator[Line]:
    """Give the lines of torch that write a tensor as text, if they ran."""
    for one in seen.study.tables.lines:
        if one.file.endswith("torch/_tensor_str.py") and one.calls:
            yield one
