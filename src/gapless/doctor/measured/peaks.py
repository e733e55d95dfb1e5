"""What common cards reach at most, by their data sheets.

Dense products on tensor cores with sums in float32, memory bandwidth. Sources: NVIDIA's data sheets
of each card (H100, H200, A100, A30, A10, L4, L40, L40S, T4, V100, RTX 6000 Ada, RTX A6000, HGX
B200) and its architecture papers (Ampere GA102, Ada, Blackwell: GeForce cards at boost clock); of
those with sparsity, half. A10G: AWS's page of G5.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class CardPeaks:
    """Operations a second by format, bytes a second; ``None``: it has no such units."""

    half: float  # fp16, and bf16 where it has it
    tf32: float | None
    fp32: float
    memory: float


_T: Final = 1e12
# The first whose words are all in the card's name: the more special names come first.
_CARDS: Final[tuple[tuple[tuple[str, ...], CardPeaks], ...]] = (
    (("B200",), CardPeaks(2250 * _T, 1125 * _T, 75 * _T, 7.7e12)),
    (("H200", "NVL"), CardPeaks(835 * _T, 417 * _T, 60 * _T, 4.8e12)),
    (("GH200", "144G"), CardPeaks(989 * _T, 494 * _T, 67 * _T, 4.9e12)),
    (("GH200",), CardPeaks(989 * _T, 494 * _T, 67 * _T, 4.0e12)),
    (("H200",), CardPeaks(989 * _T, 494 * _T, 67 * _T, 4.8e12)),
    (("H100", "NVL"), CardPeaks(835 * _T, 417 * _T, 60 * _T, 3.9e12)),
    (("H100", "PCIe"), CardPeaks(756 * _T, 378 * _T, 51 * _T, 2.0e12)),
    (("H100",), CardPeaks(989 * _T, 494 * _T, 67 * _T, 3.35e12)),
    (("A100", "80GB", "PCIe"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.935e12)),
    (("A100", "80GB"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 2.039e12)),
    (("A100",), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.555e12)),
    (("A30",), CardPeaks(165 * _T, 82 * _T, 10.3 * _T, 0.933e12)),
    (("A10G",), CardPeaks(70 * _T, 35 * _T, 35 * _T, 0.6e12)),
    (("A10",), CardPeaks(125 * _T, 62.5 * _T, 31.2 * _T, 0.6e12)),
    (("RTX", "A6000"), CardPeaks(155 * _T, 77 * _T, 38.7 * _T, 0.768e12)),
    (("RTX", "6000", "Ada"), CardPeaks(364 * _T, 182 * _T, 91 * _T, 0.96e12)),
    (("L40S",), CardPeaks(362 * _T, 183 * _T, 91.6 * _T, 0.864e12)),
    (("L40",), CardPeaks(181 * _T, 90.5 * _T, 90.5 * _T, 0.864e12)),
    (("L4",), CardPeaks(121 * _T, 60 * _T, 30.3 * _T, 0.3e12)),
    (("T4",), CardPeaks(65 * _T, None, 8.1 * _T, 0.32e12)),
    (("V100", "PCIE"), CardPeaks(112 * _T, None, 14 * _T, 0.9e12)),
    (("V100",), CardPeaks(125 * _T, None, 15.7 * _T, 0.9e12)),
    (("RTX", "5090"), CardPeaks(209 * _T, 105 * _T, 105 * _T, 1.792e12)),
    (("RTX", "4090"), CardPeaks(165 * _T, 82.6 * _T, 82.6 * _T, 1.008e12)),
    (("RTX", "4080"), CardPeaks(97.5 * _T, 48.7 * _T, 48.7 * _T, 0.717e12)),
    (("RTX", "3090"), CardPeaks(71 * _T, 35.6 * _T, 35.6 * _T, 0.936e12)),
)
# Bytes a second of one PCIe lane and direction, by generation (PCI-SIG, after line coding).
LANE_RATES: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def find_peaks(name: str | None) -> CardPeaks | None:
    """Return the peaks of a card; ``None`` for others, a laptop's version or a slice of one."""
    if name is None or "MIG" in name or "Laptop" in name:
        return None
    words = name.replace("-", " ").split()
    matches = (peaks for labels, peaks in _CARDS if all(label in words for label in labels))
    return next(matches, None)
