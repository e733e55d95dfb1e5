"""Strangers: trainings that no rule, fix or threshold was made with, and a menu for each.

They were written by somebody who had not read the rules, as scripts of people who know nothing of
this project. What gapless says of them is committed before anything is measured.

A case's ``options`` are its command line for the recorded run; ``without`` rewrites its source:
what stands there, and what stands there instead.
"""

from collections.abc import Mapping
from typing import Final

from tests.strangers.more_cases import SECOND_SET
from tests.zoo import menus as m
from tests.zoo.cases import COMPOUND, FAULT, HEALTHY, Case
from tests.zoo.menus import DECOY, REMEDY, WRONG

Rewrite = Mapping[str, str]
OPTIMIZERS: Final = {"gan": 2, "hazard": 2}  # whose steps make one of the training; others have one

_NEIGHBOURS: Final[Rewrite] = {
    """        source, target, distance = [], [], []
        for a, p in enumerate(places):
            for b, q in enumerate(places):
                if a == b:
                    continue
                d = ((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 + (p[2] - q[2]) ** 2) ** 0.5
                if d < self.cutoff:
                    source.append(a)
                    target.append(b)
                    distance.append(d)
        edges = torch.tensor([source, target], dtype=torch.long)
        return torch.tensor(self.kinds[i]), edges, torch.tensor(distance), self.energies[i]
""": """        at = torch.tensor(places)
        apart = torch.cdist(at, at)
        edges = ((apart < self.cutoff) & (apart > 0)).nonzero().T
        return torch.tensor(self.kinds[i]), edges, apart[edges[0], edges[1]], self.energies[i]
"""
}
_MAPPED: Final[Rewrite] = {
    "np.load(self.names[which])": 'np.load(self.names[which], mmap_mode="r")'
}
_READY: Final[Rewrite] = {
    "enumerate(DataLoader(Pairs(text), batch_size=options.batch))": (
        "enumerate(ready(Pairs(text), options.batch))"
    ),
    "smooth = None\n": """smooth = None


def ready(pairs, batch):
    some = [one for one, _ in zip(pairs, range(100 * batch))]
    middles, nears = (torch.stack(column) for column in zip(*some))
    while True:
        yield from zip(middles.split(batch), nears.split(batch))


""",
}
_MATCHED: Final[Rewrite] = {
    """        for number in range(len(boxes)):
            best = ious[number].max().item()
            for anchor in range(len(self.anchors)):
                iou = ious[number, anchor].item()
                if iou > 0.5 or (iou == best and iou > 0):
                    wanted[anchor] = 1.0
                    where[anchor] = (boxes[number] - self.anchors[anchor]) / SIDE
""": """        best = ious.amax(1, keepdim=True)
        taken = (ious > 0.5) | ((ious == best) & (ious > 0))
        wanted = taken.any(0).float()
        last = len(boxes) - 1 - taken.flip(0).byte().argmax(0)
        where = (boxes[last] - self.anchors) / SIDE * wanted[:, None]
"""
}
_UNTAUGHT: Final[Rewrite] = {
    "        soft = F.softmax(self.teacher(inputs) / self.temperature, dim=-1)\n": (
        "        with torch.no_grad():\n"
        "            soft = F.softmax(self.teacher(inputs) / self.temperature, dim=-1)\n"
    )
}
_SELDOM: Final[Rewrite] = {"    every = 1\n": "    every = 50\n"}
_SINGLE: Final[Rewrite] = {
    "torch.from_numpy(points)": "torch.from_numpy(points.astype(np.float32))",
    "PointNet().double()": "PointNet()",
}
_SILENT: Final[Rewrite] = {"        print(\n": "        n % 100 == 0 and print(\n"}
_OUT_OF_LOOP: Final[Rewrite] = {
    "        if iteration % 100 == 0:\n": "        if iteration % 100_000 == 0:\n"
}

_FIRST_SET: Final = (
    Case(
        "molecules",
        "molecules",
        "c",
        COMPOUND,
        ("a loop in Python over pairs of atoms", "no workers"),
        {"epochs": 5},
        (
            m.variant("pairs"),
            m.workers_and_thread(2),
            m.workers(1, WRONG),
            m.threads(1),
            m.pin_memory(),
        ),
        {"pairs": _NEIGHBOURS},
    ),
    Case(
        "weather",
        "weather",
        "c",
        FAULT,
        ("a whole file is read for each sample",),
        {"steps": 400},
        (
            m.variant("reads"),
            m.workers(1),
            m.workers_and_thread(2),
            m.pin_memory(),
            m.cached_batch(),
        ),
        {"reads": _MAPPED},
    ),
    Case(
        "skipgram",
        "skipgram",
        "c",
        FAULT,
        ("text is taken apart pair by pair, in every epoch",),
        {"steps": 500},
        (m.variant("stream"), m.workers(1), m.tf32(DECOY), m.pin_memory(), m.cached_batch()),
        {"stream": _READY},
    ),
    Case(
        "detector",
        "detector",
        "c",
        FAULT,
        ("a loop in Python over anchors",),
        {"epochs": 10},
        (m.variant("loop"), m.threads(1), m.fused_optimizer("SGD", WRONG), m.pin_memory()),
        {"loop": _MATCHED},
    ),
    Case(
        "distill",
        "distill",
        "c",
        FAULT,
        ("a teacher that is differentiated",),
        {"steps": 300},
        (m.variant("gradients"), m.threads(1), m.fused_optimizer("AdamW", WRONG), m.tf32(DECOY)),
        {"gradients": _UNTAUGHT},
    ),
    Case(
        "forecast",
        "forecast",
        "c",
        FAULT,
        ("histograms and a flushed file each step",),
        {"steps": 900},
        (m.variant("history"), m.workers(1, WRONG), m.tf32(DECOY), m.pin_memory()),
        {"history": _SELDOM},
    ),
    Case(
        "pointcloud",
        "pointcloud",
        "c",
        FAULT,
        ("double precision",),
        {"epochs": 10},
        (m.variant("doubles"), m.threads(1), m.workers(1, WRONG), m.pin_memory()),
        {"doubles": _SINGLE},
    ),
    Case(
        "tabular",
        "tabular",
        "c",
        FAULT,
        ("more threads than cores",),
        {"epochs": 5},
        (m.threads(2, REMEDY), m.threads(1), m.fused_optimizer("AdamW", WRONG), m.tf32(DECOY)),
    ),
    Case(
        "translation",
        "translation",
        "c",
        HEALTHY,
        (),
        {"updates": 300},
        (m.threads(2), m.tf32(DECOY), m.unfused_optimizer("Adam")),
    ),
    Case(
        "vae",
        "vae",
        "c",
        HEALTHY,
        (),
        {"epochs": 14},
        (m.threads(1), m.tf32(DECOY), m.unfused_optimizer("Adam")),
    ),
    Case(
        "pinn",
        "pinn",
        "c",
        HEALTHY,
        (),
        {"iterations": 400},
        (m.variant("print"), m.threads(1), m.tf32(DECOY)),
        {"print": _OUT_OF_LOOP},
    ),
    Case(
        "gan",
        "gan",
        "c",
        DECOY,
        (".item() and a line each step",),
        {"rounds": 400},
        (m.variant("prints"), m.threads(1), m.tf32(DECOY)),
        {"prints": _SILENT},
    ),
    Case(
        "sound",
        "sound",
        "c",
        HEALTHY,
        (),
        {"steps": 400},
        (m.workers(2, WRONG), m.prefetch(8), m.pin_memory(), m.cached_batch()),
    ),
)
CASES: dict[str, Case] = {case.name: case for case in (*_FIRST_SET, *SECOND_SET)}


def command(case: Case) -> list[str]:
    """Return the script of a case, and its arguments for the recorded run."""
    words = (word for name, value in case.options.items() for word in (f"--{name}", str(value)))
    return [f"tests/strangers/trainings/{case.family}.py", *words]
