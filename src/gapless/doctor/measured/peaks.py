"""What common cards reach at most, by their makers' data sheets.

Dense products on tensor cores with sums in float32, and memory bandwidth; where a sheet gives
products of sparse matrices alone, half of that. Cards whose sheets do not say it are not listed.
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
# The first whose words are all in the card's name, as NVML gives it: special names come first.
_CARDS: Final[tuple[tuple[tuple[str, ...], CardPeaks], ...]] = (
    # Blackwell data sheet, HGX B200 and GB200 NVL72, figures of one GPU, with sparsity.
    (("GB200",), CardPeaks(2500 * _T, 1250 * _T, 80 * _T, 8.0e12)),
    (("B200",), CardPeaks(2250 * _T, 1100 * _T, 75 * _T, 7.7e12)),
    # nvidia.com/en-us/data-center/h200, with sparsity.
    (("H200", "NVL"), CardPeaks(835.5 * _T, 417.5 * _T, 60 * _T, 4.8e12)),
    (("H200",), CardPeaks(989.4 * _T, 494.7 * _T, 67 * _T, 4.8e12)),
    # GH200 data sheet: "sparse | dense"; 96 GB of HBM3, or 144 GB of HBM3e.
    (("GH200", "144G"), CardPeaks(990 * _T, 494 * _T, 67 * _T, 4.9e12)),
    (("GH200", "480GB"), CardPeaks(990 * _T, 494 * _T, 67 * _T, 4.0e12)),
    # Hopper architecture paper (SXM), H100 PCIe and H100 NVL data sheets (with sparsity).
    (("H100", "NVL"), CardPeaks(835.5 * _T, 417.5 * _T, 60 * _T, 3.9e12)),
    (("H100", "PCIe"), CardPeaks(756.5 * _T, 378 * _T, 51 * _T, 2.0e12)),
    (("H100", "80GB", "HBM3"), CardPeaks(989.4 * _T, 494.7 * _T, 67 * _T, 3.35e12)),
    # A100 data sheet 1758950-r4 (80 GB), Ampere architecture paper (40 GB).
    (("A100", "80GB", "PCIe"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.935e12)),
    (("A100", "SXM4", "80GB"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 2.039e12)),
    (("A100", "40GB"), CardPeaks(312 * _T, 156 * _T, 19.5 * _T, 1.555e12)),
    # A30 and A10 data sheets.
    (("A30",), CardPeaks(165 * _T, 82 * _T, 10.3 * _T, 0.933e12)),
    (("A10",), CardPeaks(125 * _T, 62.5 * _T, 31.2 * _T, 0.6e12)),
    # RTX A6000 data sheet, and RTX 6000 Ada data sheet; with sparsity.
    (("RTX", "A6000"), CardPeaks(154.8 * _T, 77.4 * _T, 38.7 * _T, 0.768e12)),
    (("RTX", "6000", "Ada"), CardPeaks(364.2 * _T, 182.1 * _T, 91.1 * _T, 0.96e12)),
    # L40S and L4 data sheets.
    (("L40S",), CardPeaks(362 * _T, 183 * _T, 91.6 * _T, 0.864e12)),
    (("L4",), CardPeaks(121 * _T, 60 * _T, 30.3 * _T, 0.3e12)),
    # T4 data sheet 951643.
    (("T4",), CardPeaks(65 * _T, None, 8.1 * _T, 0.32e12)),
    # V100 data sheet 1165301-r5.
    (("V100", "PCIE"), CardPeaks(112 * _T, None, 14 * _T, 0.9e12)),
    (("V100", "SXM2"), CardPeaks(125 * _T, None, 15.7 * _T, 0.9e12)),
    # Architecture papers of Blackwell (GeForce), Ada and Ampere (GA102), at the boost clock.
    (("RTX", "5090"), CardPeaks(209.5 * _T, 104.8 * _T, 104.8 * _T, 1.792e12)),
    (("RTX", "4090"), CardPeaks(165.2 * _T, 82.6 * _T, 82.6 * _T, 1.008e12)),
    (("RTX", "4080"), CardPeaks(97.5 * _T, 48.7 * _T, 48.7 * _T, 0.717e12)),
    (("RTX", "3090"), CardPeaks(71 * _T, 35.6 * _T, 35.6 * _T, 0.936e12)),
)
# Words by which a card is another one than that whose name it bears, or a slice of it.
_OTHERS: Final = frozenset({"MIG", "Laptop", "SUPER", "Ti", "D", "Max"})
# Bytes a second of one PCIe lane and direction, by generation (PCI-SIG, after line coding).
LANE_RATES: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def find_peaks(name: str | None) -> CardPeaks | None:
    """Return the peaks of a card; ``None`` for others, a laptop's version or a slice of one."""
    words = (name or "").replace("-", " ").split()
    if not _OTHERS.isdisjoint(words):
        return None
    matches = (peaks for labels, peaks in _CARDS if all(label in words for label in labels))
    return next(matches, None)
