"""What common cards reach at most, by their makers' data sheets.

Dense products on tensor cores with sums in float32, and memory bandwidth; where a sheet gives
products of sparse matrices alone, half of that. Cards whose sheets do not say it are not listed.
Each has the document that its figures are quoted from; the quotations were looked up on the day of
``LOOKED_UP``: makers revise their sheets, and some of them bear no date.
"""

from typing import Final

from msgspec import Struct


class CardPeaks(Struct, frozen=True):
    """Operations a second by format, bytes a second; ``None``: it has no such units."""

    half: float  # fp16, and bf16 where it has it
    tf32: float | None
    fp32: float
    memory: float
    source: str  # the document


LOOKED_UP: Final = "2026-11-25"
_BLACKWELL: Final = "NVIDIA Blackwell data sheet, with sparsity, a GPU of the system"
_H200: Final = "NVIDIA H200, nvidia.com/en-us/data-center/h200, with sparsity"
_GH200: Final = "NVIDIA GH200 Grace Hopper Superchip data sheet, dense"
_HOPPER: Final = "NVIDIA H100 Tensor Core GPU Architecture, white paper"
_H100_NVL: Final = "NVIDIA H100 NVL data sheet, with sparsity"
_H100_PCIE: Final = "NVIDIA H100 PCIe data sheet, with sparsity"
_A100_80: Final = "NVIDIA A100 data sheet 1758950-r4"
_A100_40: Final = "NVIDIA A100 Tensor Core GPU Architecture, white paper"
_ADA: Final = "NVIDIA Ada GPU Architecture, white paper, at the boost clock"
_GA102: Final = "NVIDIA Ampere GA102 GPU Architecture, white paper, at the boost clock"
_A6000: Final = "NVIDIA RTX A6000 data sheet, with sparsity"
_ADA_6000: Final = "NVIDIA RTX 6000 Ada data sheet, with sparsity"
_L4: Final = "NVIDIA L4 data sheet, with sparsity"
_V100: Final = "NVIDIA V100 data sheet 1165301-r5"
_RTX_BLACKWELL: Final = "NVIDIA RTX Blackwell GPU Architecture, white paper, at the boost clock"
_T: Final = 1e12
# The first whose words are all in the card's name, as NVML gives it: special names come first.
_CARDS: Final[tuple[tuple[tuple[str, ...], CardPeaks], ...]] = (
    (("GB200",), CardPeaks(2500 * _T, 1250 * _T, 80 * _T, 8.0e12, _BLACKWELL)),
    (("B200",), CardPeaks(2250 * _T, 1100 * _T, 75 * _T, 7.7e12, _BLACKWELL)),
    (("H200", "NVL"), CardPeaks(835.5 * _T, 417.5 * _T, 60 * _T, 4.8e12, _H200)),
    (("H200",), CardPeaks(989.4 * _T, 494.7 * _T, 67 * _T, 4.8e12, _H200)),
    (("GH200", "144G"), CardPeaks(990 * _T, 494 * _T, 67 * _T, 4.9e12, _GH200)),
    (("GH200", "480GB"), CardPeaks(990 * _T, 494 * _T, 67 * _T, 4.0e12, _GH200)),
    (("H100", "NVL"), CardPeaks(835.5 * _T, 417.5 * _T, 60 * _T, 3.9e12, _H100_NVL)),
    (("H100", "PCIe"), CardPeaks(756.5 * _T, 378 * _T, 51 * _T, 2.0e12, _H100_PCIE)),
    (("H100", "80GB", "HBM3"), CardPeaks(989.4 * _T, 494.7 * _T, 67 * _T, 3.35e12, _HOPPER)),
    (("A100", "80GB", "PCIe"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.935e12, _A100_80)),
    (("A100", "SXM4", "80GB"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 2.039e12, _A100_80)),
    (("A100", "40GB"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.555e12, _A100_40)),
    (("A30",), CardPeaks(165 * _T, 82 * _T, 10.3 * _T, 0.933e12, "NVIDIA A30 data sheet")),
    (("A10",), CardPeaks(125 * _T, 62.5 * _T, 31.2 * _T, 0.6e12, "NVIDIA A10 data sheet")),
    (("RTX", "A6000"), CardPeaks(154.8 * _T, 77.4 * _T, 38.7 * _T, 0.768e12, _A6000)),
    (("RTX", "6000", "Ada"), CardPeaks(364.2 * _T, 182.1 * _T, 91.1 * _T, 0.96e12, _ADA_6000)),
    (("L40S",), CardPeaks(362 * _T, 183 * _T, 91.6 * _T, 0.864e12, "NVIDIA L40S data sheet")),
    (("L4",), CardPeaks(121 * _T, 60 * _T, 30.3 * _T, 0.3e12, _L4)),
    (("T4",), CardPeaks(65 * _T, None, 8.1 * _T, 0.32e12, "NVIDIA T4 data sheet 951643")),
    (("V100", "PCIE"), CardPeaks(112 * _T, None, 14 * _T, 0.9e12, _V100)),
    (("V100", "SXM2"), CardPeaks(125 * _T, None, 15.7 * _T, 0.9e12, _V100)),
    (("RTX", "5090"), CardPeaks(209.5 * _T, 104.8 * _T, 104.8 * _T, 1.792e12, _RTX_BLACKWELL)),
    (("RTX", "4090"), CardPeaks(165.2 * _T, 82.6 * _T, 82.6 * _T, 1.008e12, _ADA)),
    (("RTX", "4080"), CardPeaks(97.5 * _T, 48.7 * _T, 48.7 * _T, 0.717e12, _ADA)),
    (("RTX", "3090"), CardPeaks(71 * _T, 35.6 * _T, 35.6 * _T, 0.936e12, _GA102)),
)
# Words by which a card is another one than that whose name it bears, or a slice of it.
_OTHER_MODELS: Final = frozenset({"MIG", "Laptop", "SUPER", "Ti", "D", "Max"})
# Bytes a second of one PCIe lane and direction, by generation (PCI-SIG, after line coding).
LANE_RATES: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def list_peaks() -> dict[str, CardPeaks]:
    """Return the peaks of all cards, by the words that a card's name must have."""
    return {" ".join(labels): peaks for labels, peaks in _CARDS}


def find_peaks(name: str | None) -> CardPeaks | None:
    """Return the peaks of a card; ``None`` for others, a laptop's version or a slice of one."""
    words = (name or "").replace("-", " ").split()
    if not _OTHER_MODELS.isdisjoint(words):
        return None
    matches = (peaks for labels, peaks in _CARDS if all(label in words for label in labels))
    return next(matches, None)
