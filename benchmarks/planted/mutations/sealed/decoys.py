"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import TORCH
from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TOPS: Final = (
    ("inference-asked", f"{TORCH}_inferring = _torch.is_inference_mode_enabled()\n"),
    ("exactness-read", f"{TORCH}_exactness = _torch.get_float32_matmul_precision()\n"),
    ("byte-order-known", "import sys as _sys\n_order = _sys.byteorder\n"),
    ("modules-counted", "import sys as _sys\n_count = len(_sys.modules)\n"),
    ("encoding-known", "import sys as _sys\n_encoding = _sys.getdefaultencoding()\n"),
    ("digits-as-ever", "import decimal as _decimal\n_decimal.getcontext().prec = 28\n"),
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    ("odd-or-even", after_step("_odd[0] ^= 1", "_odd = [0]\n")),
    (
        "most-groups-kept",
        after_step("_most[0] = max(_most[0], len({parameters}))", "_most = [0]\n"),
    ),
    ("place-of-the-loss", before_backward("_place = {loss}.device.type")),
    ("strides-of-the-loss", before_backward("_strides = {loss}.stride()")),
    ("loss-not-nested", before_backward("_nested = {loss}.is_nested")),
    ("loss-has-a-version", before_backward("_version = {loss}._version")),
    ("index-doubled", items("_twice = index * 2", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
