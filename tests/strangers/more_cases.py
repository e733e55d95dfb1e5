"""A second dozen of strangers: other domains, other habits and other faults than the first."""

from collections.abc import Mapping
from typing import Final

from tests.zoo import menus as m
from tests.zoo.cases import COMPOUND, FAULT, HEALTHY, Case
from tests.zoo.menus import DECOY, WRONG

Rewrite = Mapping[str, str]

_TOGETHER: Final[Rewrite] = {
    """        chosen = []
        for state, draw in zip(now, draws):
            with torch.no_grad():
                logits, _ = policy(torch.tensor(state))
            chosen.append(int(logits.exp()[1].item() > draw))
""": """        with torch.no_grad():
            logits, _ = policy(torch.tensor(now))
        chosen = [int(chance > draw) for chance, draw in zip(logits.exp()[:, 1].tolist(), draws)]
"""
}
_SPARSE: Final[Rewrite] = {
    "nn.Embedding(s.customers, s.wide)": "nn.Embedding(s.customers, s.wide, sparse=True)",
    "nn.Embedding(s.goods, s.wide)": "nn.Embedding(s.goods, s.wide, sparse=True)",
    "nn.Embedding(s.goods, 1)": "nn.Embedding(s.goods, 1, sparse=True)",
}
_LONGEST: Final[Rewrite] = {
    "    longest = LONGEST\n": "    longest = max(len(word) for word, _ in rows)\n"
}
_COLUMNS: Final[Rewrite] = {
    "DataLoader(Impressions(), batch_size=256, shuffle=True, drop_last=True)": (
        "DataLoader(data := Impressions(), batch_size=None, "
        "sampler=BatchSampler(RandomSampler(data), 256, drop_last=True))"
    )
}
_IN_PLACE: Final[Rewrite] = {
    """    for name, value in model.state_dict().items():
        new = value.detach().clone()
        average[name] = decay * average[name] + (1 - decay) * new
""": """    new = model.state_dict()
    torch._foreach_lerp_([average[name] for name in new], list(new.values()), 1 - decay)
"""
}
_CLIPPED: Final[Rewrite] = {
    """    grads = torch.cat([p.grad.flatten() for p in parameters])
    norm = grads.square().sum().sqrt().item()
    for p in parameters:
        p.grad = p.grad * min(1.0, most / (norm + 1e-6))
    return norm
""": """    return nn.utils.clip_grad_norm_(parameters, most)
"""
}
_STORED: Final[Rewrite] = {
    "checkpoint(block, x, layer, use_reentrant=False)": "block(x, layer)",
}
_ONCE: Final[Rewrite] = {
    """        with_self = adjacency + torch.eye(len(adjacency))
        root = with_self.sum(1).pow(-0.5)
        norm = root[:, None] * with_self * root[None]
        return norm @""": "        return adjacency @",
    "    model = Network(text.shape[1], 6)\n": """    model = Network(text.shape[1], 6)
    adjacency = adjacency + torch.eye(len(adjacency))
    root = adjacency.sum(1).pow(-0.5)
    adjacency = root[:, None] * adjacency * root[None]
""",
}
_UNCOLLECTED: Final[Rewrite] = {"    if it % 8 == 0:\n        gc.collect()\n": ""}
_TRUSTING: Final[Rewrite] = {"debug = True": "debug = False"}
_UNSEEN: Final[Rewrite] = {"step % 100 == 99": "step % 100_000 == 99_999"}
_UNREPORTED: Final[Rewrite] = {"    report_every = 50\n": "    report_every = 50_000\n"}
_UNLOGGED: Final[Rewrite] = {"step % 10 == 0": "step % 10_000 == 0"}
_UNSAVED: Final[Rewrite] = {"every=100)": "every=100_000)"}

SECOND_SET: Final = (
    Case(
        "actor",
        "actor",
        "c",
        FAULT,
        ("a policy is asked for one pole at a time",),
        {"updates": 500},
        (m.variant("asking"), m.threads(2), m.tf32(DECOY), m.unfused_optimizer("RMSprop")),
        {"asking": _TOGETHER},
    ),
    Case(
        "basket",
        "basket",
        "c",
        FAULT,
        ("gradients of whole tables, of which few rows are used",),
        {"steps": 500},
        (m.variant("tables"), m.threads(1), m.tf32(DECOY)),
        {"tables": _SPARSE},
    ),
    Case(
        "tagger",
        "tagger",
        "c",
        FAULT,
        ("sentences are padded to the longest that there may be",),
        {"steps": 250},
        (
            m.variant("padding"),
            m.workers(1, WRONG),
            m.fused_optimizer("AdamW", WRONG),
            m.pin_memory(),
        ),
        {"padding": _LONGEST},
    ),
    Case(
        "clicks",
        "clicks",
        "c",
        FAULT,
        ("rows are taken from columns one by one, and put together by name",),
        {"steps": 300},
        (
            m.variant("rows"),
            m.workers(1),
            m.workers_and_thread(2),
            m.pin_memory(),
            m.cached_batch(),
        ),
        {"rows": _COLUMNS},
    ),
    Case(
        "denoise",
        "denoise",
        "c",
        COMPOUND,
        ("an average of weights that copies them", "gradients are copied to clip them"),
        {"steps": 300},
        (m.variant("average"), m.variant("clip"), m.threads(1), m.tf32(DECOY)),
        {"average": _IN_PLACE, "clip": _CLIPPED},
    ),
    Case(
        "melody",
        "melody",
        "c",
        FAULT,
        ("layers are computed again though there is room for them",),
        {"steps": 150},
        (m.variant("again"), m.threads(1), m.tf32(DECOY), m.unfused_optimizer("Adam")),
        {"again": _STORED},
    ),
    Case(
        "citation",
        "citation",
        "c",
        FAULT,
        ("a graph that stays the same is normalised in every layer",),
        {"epochs": 300},
        (m.variant("normal"), m.threads(1), m.fused_optimizer("Adam", WRONG), m.tf32(DECOY)),
        {"normal": _ONCE},
    ),
    Case(
        "lesions",
        "lesions",
        "c",
        COMPOUND,
        ("garbage is collected each step", "anomaly detection is left on"),
        {"iterations": 200},
        (m.variant("collect"), m.variant("debug"), m.threads(1), m.fused_optimizer("AdamW", WRONG)),
        {"collect": _UNCOLLECTED, "debug": _TRUSTING},
    ),
    Case(
        "heat",
        "heat",
        "c",
        HEALTHY,
        (),
        {"steps": 250},
        (m.variant("unseen"), m.threads(1), m.tf32(DECOY), m.unfused_optimizer("Adam")),
        {"unseen": _UNSEEN},
    ),
    Case(
        "hazard",
        "hazard",
        "c",
        HEALTHY,
        (),
        {"steps": 600},
        (m.variant("report"), m.threads(1), m.tf32(DECOY)),
        {"report": _UNREPORTED},
    ),
    Case(
        "contrast",
        "contrast",
        "c",
        HEALTHY,
        (),
        {"steps": 250},
        (m.variant("logs"), m.workers(1, WRONG), m.fused_optimizer("SGD", WRONG), m.pin_memory()),
        {"logs": _UNLOGGED},
    ),
    Case(
        "letters",
        "letters",
        "c",
        HEALTHY,
        (),
        {"steps": 400},
        (m.variant("saves"), m.workers(1, WRONG), m.threads(1), m.pin_memory()),
        {"saves": _UNSAVED},
    ),
)
