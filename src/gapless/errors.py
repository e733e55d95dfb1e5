"""Everything that gapless raises for bad input: one class, a few children, each with a slug.

``page`` of a class is its page: what ``gapless explain SLUG`` prints, and docs/errors.md shows.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

_USER: Final = re.compile(  # a key may hold "/" and "@", as they should not stand in an URL
    r"""(?<=://)(?:[^/\s]*@|[^/\s:@]+:(?!\d+/)[^\s?'"]*@)"""
)
_QUERY: Final = re.compile(r"""(://[^\s?#]*[?#])[^\s'"]*=[^\s'"]*?(?=[:,;.)]*(?:[\s'"]|$))""")


def mask_secrets(text: str) -> str:
    """Return a text in which no URL shows a user, a password, or values behind ``?`` or ``#``."""
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1***", _USER.sub("***@", text))


class GaplessError(Exception):
    """An error whose message says what is wrong, with the values, and what to do.

    ``slug`` names the error for ``gapless explain``, ``page`` is what that prints.
    """

    slug: ClassVar[str] = "error"
    page: ClassVar[str] = """\
The kind that all others are special cases of. What it says is all there is to say.
"""

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class NotFoundError(GaplessError):
    """A path, a pattern or a rank that names nothing."""

    slug = "not-found"
    page = """\
A path, a pattern or a rank names nothing.

- Look at the path as the message prints it. A pattern in quotes is expanded by gapless,
  without them by the shell.
- A folder is searched for traces (`*.json`, `*.json.gz`, `*.json.zst`, and what
  [other profilers](foreign-traces.md) write) at any depth.
- `--rank` takes numbers of ranks that are among the files; the message lists those that are.
- `account.to_frame()` needs narwhals and one of polars, pandas and pyarrow:
  `pip install 'gapless[frame]'`.
"""


class NotATraceError(GaplessError):
    """A file that holds no trace that gapless can read."""

    slug = "not-a-trace"
    page = """\
The file was read, and holds no trace events: it is empty, or something else.

- gapless reads the JSON that `torch.profiler` writes (`export_chrome_trace`,
  `tensorboard_trace_handler`) and what other profilers write
  ([traces of others](foreign-traces.md)), not memory snapshots (`.pickle`).
- A report of Nsight Systems (`.nsys-rep`) must be exported first, unless `nsys` is installed here:
  `nsys export --type sqlite`.
- A file that `torch.profiler` is still writing can be empty. Wait until the training has closed it.
- A cut file is no error: what is whole in it is used, and the health lines say so.
"""


class RemoteError(GaplessError):
    """A remote file or folder that cannot be reached, or not be had whole."""

    slug = "remote"
    page = """\
A file or folder at an URL (`s3://`, `gs://`, `hdfs://`, `https://` …) cannot be listed, or not be
fetched whole.

- A package is missing: the message names it. gapless brings fsspec (`pip install
  'gapless[remote]'`); which file systems it knows is for you to choose: s3fs, gcsfs, adlfs.
- Credentials are taken from where that package looks for them (`AWS_PROFILE`, `AWS_ENDPOINT_URL`,
  `GOOGLE_APPLICATION_CREDENTIALS` …). No message shows them: of an URL neither user nor query.
- *cut after …*: the connection broke several times; each time it was gone on with from there.
"""


class PackingError(GaplessError):
    """A data set that cannot be packed, or not into that place."""

    slug = "packing"
    page = """\
`gapless pack` cannot read a source, or not write to a target. The source is never changed, and
shards that are whole stay: the same command goes on with them.

- *nothing is overwritten*: choose a folder that is not there yet, or remove the old one.
- *the disk takes no more*: make room and type the same command again.
- *is another each time it is made*: leave random transforms out of the data set that is packed, and
  hand them to `PackedDataset(…, transform=…)`.
- *sample 17: … is a pathlib.PosixPath*: a type that cannot be written without pickle. Return one
  that can: tensors, arrays, images of Pillow, bytes, texts, numbers, and tuples, lists and dicts
  of these.
- A package that is missing must be installed where the data set is read: `--python` names that
  interpreter.
"""


class RunFolderError(GaplessError):
    """A run folder, or a packed one, that cannot be read, or must not be touched."""

    slug = "run-folder"
    page = """\
A folder holds no run, or one that must be left alone.

- `gapless runs` lists the runs of `.gapless/runs` in the current folder; `--in DIR` looks
  elsewhere, for example where `gapless run --out DIR` put them.
- *is of version …*: a later gapless recorded the run. Upgrade, or look at it with the version that
  `run.json` names; nothing was changed.
- A run that goes on is not deleted. End it first, or insist with `--force`.
- A packed run (`.tar.zst`, `.zip`) that is damaged, or holds anything but a run, is not unpacked.
- A damaged log is no error: every whole frame in it is used, and the recording says what is
  missing.
"""


class UsageError(GaplessError):
    """An option or a combination of options that cannot be followed."""

    slug = "usage"
    page = """\
An option, its value, or a combination cannot be followed. The message says which values can;
`gapless COMMAND --help` lists all options.

- `--fix` takes the names that `gapless try --list` prints, `--set` any setting in one of the forms
  that the page of fixes lists ("Settings without a name").
- *arms may touch …*: a trial would write where no private view covers it. Name the places with
  `--allow-writes PATH`, or say `--yes`.
"""


def read_error_pages() -> Iterator[tuple[str, str]]:
    """Yield the slug and the page of each kind of error."""
    for error_type in (GaplessError, *GaplessError.__subclasses__()):
        yield error_type.slug, error_type.page
