"""Pack a data set into few large files that are read fast: planned, written, checked."""

from typing import Final

FORMATS: Final = {  # what each is, for people; here, since the command line asks for nothing else
    "packed": "plain files with an index",
    "tar": "WebDataset's tar shards, with an index",
    "lmdb": "LMDB",
    "hdf5": "HDF5",
    "npy": "structured arrays of NumPy",
    "mds": "shards of MosaicML Streaming",
    "litdata": "chunks of LitData",
}
INDEXED_FORMATS: Final = ("mds", "litdata")  # whose libraries find shards by an index.json
