"""Pack a data set into few large files that are read fast: for trainings that wait for reads.

Worth it only where reads are what steps wait for: gapless report says so (read-bound), with what a
step could take. On a local disk whose files lie in memory nothing is gained.

SOURCE is a folder of images (in folders of classes, as torchvision's ImageFolder takes it: files
are kept as they are), a folder of tar shards, a .csv, .tsv, .parquet or .tar file, or a data set
that is read by index: file.py:NAME or module:NAME. NAME is an expression in that module, a data set
or what makes one: 'data.py:Photos("train")'. It is imported where your trainings run (--python).
Its samples may hold tensors, arrays, Pillow's images, bytes, texts, numbers, tuples, lists, dicts.

TARGET is a folder that is not there yet. How it is written is said by --to, or by its suffix:

  packed (.packed) plain files with an index: needs no package (usual)
  tar (.tar) WebDataset's shards, with an index: in order, over a network
  lmdb (.lmdb) LMDB: many small samples; pip install lmdb
  hdf5 (.h5) HDF5: opens in other tools; pip install h5py
  mds (.mds) MosaicML Streaming's shards, for its StreamingDataset
  litdata (.litdata) LitData's chunks, for its StreamingDataset
  npy (.npy) arrays for numpy.load, of samples of equal shapes

gapless.parts.PackedDataset reads all of them back, with the same indices, labels and types. Shards
are written side by side, each with its checksum; after a kill or a full disk the same command goes
on. Nothing is overwritten, and SOURCE is only read.

Examples:
  gapless pack photos photos.packed              class folders of JPEG files
  gapless pack photos photos.tar --verify        and every sample compared
  gapless pack data.py:Texts texts.lmdb          a data set of yours
  gapless pack 'data.py:Waves("train")' waves.npy --workers 8
  gapless pack table.csv rows.packed --json

"""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.pack.sources import SourceSpec

SUMMARY = "pack a data set into few large files that are read fast"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX_WORKERS = 8  # unless more are asked for: a disk takes no more


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless pack``."""
    from gapless.commands.options import add_forms, positive
    from gapless.pack import FORMATS

    parser.add_argument("source", metavar="SOURCE", help="what is read; never changed")
    parser.add_argument("target", metavar="TARGET", type=Path, help="a folder that is made")
    parser.add_argument("--to", metavar="FORMAT", choices=tuple(FORMATS), help=", ".join(FORMATS))
    parser.add_argument(
        "--verify", action="store_true", help="compare every sample with the source afterwards"
    )
    parser.add_argument(
        "--workers", metavar="N", type=positive, help="processes (of the processors, at most 8)"
    )
    parser.add_argument(
        "--shard-size", metavar="SIZE", type=byte_size,
        help="of a file, about: 64M, 1G (8M to 1G, by the whole)",
    )  # fmt: skip
    parser.add_argument(
        "--python", metavar="PATH", help="the interpreter that imports the data set (this one)"
    )
    add_forms(parser)


def byte_size(text: str) -> int:
    """Parse a size (64M, 1G, 500000) into bytes. Raises what argparse turns into an error."""
    match = re.fullmatch(r"(\d{1,12})([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    n_bytes = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not n_bytes:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; for example 64M or 1G")
    return n_bytes


def main(arguments: argparse.Namespace) -> int:
    """Pack, and print what was written and how to read it."""
    import os
    import sys

    from gapless.commands.options import progress, tell
    from gapless.commands.pack_text import cost_sentence, packed_json, packed_lines
    from gapless.pack.packing import PackCost, PackRequest, pack
    from gapless.pack.sources import check_places, choose_format, find_source
    from gapless.report.text.console import pen_for

    source = find_source(arguments.source)
    check_places(source, arguments.target)
    request = PackRequest(
        source,
        arguments.target,
        choose_format(arguments.target, arguments.to),
        _choose_python(source, arguments.python),
        arguments.workers or min(len(os.sched_getaffinity(0)), _MAX_WORKERS),
        arguments.shard_size,
        arguments.verify,
    )
    try:
        with progress() as say:

            def announce(cost: PackCost) -> None:
                say("")
                tell(cost_sentence(request, cost))

            result = pack(request, say, announce)
    except KeyboardInterrupt:
        tell("interrupted: shards that are whole stay, and the same command goes on")
        raise
    if arguments.json:
        sys.stdout.write(packed_json(result))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(packed_lines(request, result, pen))
    return 0


def _choose_python(source: "SourceSpec", named: str | None) -> str:
    """Return the interpreter that reads the source: the named one, this, or that of trainings.

    Raises ``UsageError`` if there is none.
    """
    import os
    import sys
    from importlib.util import find_spec

    from gapless.doctor.interpreter import choose_interpreter
    from gapless.errors import UsageError

    if named is None and (not source.is_code or find_spec("torch") is not None):
        return sys.executable
    python = choose_interpreter(named, None, os.environ.get("PATH")).python
    if python is None:
        raise UsageError("no python is on PATH: name the one of your trainings with --python")
    return python
