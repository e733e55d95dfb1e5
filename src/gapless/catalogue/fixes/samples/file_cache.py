"""Keep files of a slow place on a local disk."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "file-cache"


@fix(
    NAME,
    value="FOLDER",
    stages=("read",),
    cases="""
    # A list of files, eight workers
    > risky: files of train.py:41 are read from where they lie once, and kept in /local/photos
    cpu(worker_loader(files="files")), Option(value="/local/photos")
    Wrap(LOADER, NAME, {"folder": "/local/photos"}, LOADER_LINE)
    # No folder is named
    > refused: it needs a folder on a local disk: file-cache=FOLDER
    cpu(worker_loader(files="files"))
    # No list of files
    > refused: Images has no list of files, one for each sample
    cpu(worker_loader(files=None)), Option(value="/local/photos")
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    cpu(loader(files="files")), Option(value="/local/photos")
    """,
)
def file_cache(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Keep the files of a slow mount as they are, in a folder on a local disk; workers share it.

    What Python code in the workers opens to read, below the folder that all files of the data set
    are in, is copied to the folder first, and opened there: in later epochs, and in later runs. At
    most a half of the disk's free space is filled. Decoding and augmenting stay as they are.

    A trial copies the files before it measures, in a minute at most, so that it shows what later
    epochs gain.

    ## Precondition
    A loader with workers, and a data set with a list of paths, one for each sample. What libraries
    open by themselves (``cv2.imread``, ``torchvision.io``, HDF5) is read from where it lies.

    ## Safety
    The same bytes: a copy is known by its file's path, size and time, which are asked for each
    time, and one of a file that was written anew is made anew. Risky, since the name of an opened
    file is that of the copy, and since a folder outside of the training's is written to.
    """
    if option.value is None:
        reason = f"it needs a folder on a local disk: {NAME}=FOLDER"
        return (file_cache.refusal(reason),)
    if "/" not in option.value:
        raise UsageError(f"{NAME}={option.value}: a folder is meant, with a slash: ./{NAME}")
    folder = option.value
    return propose_for_loaders(file_cache, facts, option, lambda loader: _propose(loader, folder))


def _propose(loader: Loader, folder: str) -> Proposal:
    line_ref = name_line(loader.location)
    if not loader.num_workers:
        reason = f"the loader at {line_ref} has no workers: first let there be some, more-workers"
        return file_cache.refusal(reason, loader.location)
    if loader.files is None:
        reason = f"{short_name(loader.dataset)} has no list of files, one for each sample"
        return file_cache.refusal(reason, loader.location)
    return file_cache.proposal(
        f"files of {line_ref} are read from where they lie once, and kept in {folder}",
        Wrap(LOADER, NAME, {"folder": folder}, loader.location),
        applicability=Applicability.RISKY,
        risk="an opened file's name is that of its copy",
        location=loader.location,
    )
