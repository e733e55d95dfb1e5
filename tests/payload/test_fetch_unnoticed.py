"""What the user sees is what they would see without the recorder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gapless import wire
from tests.payload.loading import run_script

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytest.importorskip("PIL")

SCRIPT = """
import builtins, copy, gc, gzip, inspect, io, logging, pickle, traceback
import numpy as np
from PIL import Image
from nltk.tokenize import warn, word_tokenize as encode

OPEN, READ = builtins.open, os.read

class Broken(Numbers):
    def __init__(self, how):
        self.how = how
    def __getitem__(self, index):
        return self.how(index)

class BrokenStream(IterableDataset):
    def __iter__(self):
        yield 1
        raise KeyError("in a stream")

def missing(index):
    with open("nowhere", "rb") as file:
        return file.read()

def text(index):
    with open("nowhere.txt") as file:
        return file.read()

def no_picture(index):
    return Image.open(io.BytesIO(b"rubbish")).convert("RGB")

def cut_picture(index):
    return Image.open(io.BytesIO(CUT)).convert("RGB")

def closed(index):
    file = open("script.py", "rb")
    file.close()
    return file.read()

def failing_encoder(index):
    return encode(None)

def collate(samples):
    raise ValueError("in collate")

def catch(action):
    try:
        action()
    except Exception:
        traceback.print_exc(file=sys.stdout)
    # An iterator in a cycle with its traceback would be collected in the next worker, where torch
    # complains of it now and then: "can only test a child process".
    gc.collect()

def load(data, **arguments):
    for batch in DataLoader(data, batch_size=2, **arguments):
        pass

def look(index):
    first = open("script.py", "rb")
    with first, open("script.py", "rb", buffering=0) as raw, open("script.py") as words:
        found = [type(first), first.name, first.mode, type(first.raw).__mro__[-4:], repr(first)]
        found += [type(raw), type(words), first.read(10), first.peek(3)[:3], first.tell()]
        found += [len(first.read()), raw.read(4), words.readline(), first.seek(3), first.read1(3)]
        found += [bytes(bytearray(first.readline())), first.isatty(), first.fileno() >= 0]
    with io.open(__import__("pathlib").Path("script.py"), "rb") as other:
        found += [type(other.name), sum(1 for line in other)]
    found += [isinstance(first, io.BufferedReader), isinstance(first.raw, io.FileIO)]
    print(found)
    found = [repr(encode), encode.__name__, str(inspect.signature(encode)), encode("é")]
    found += [pickle.loads(pickle.dumps(encode)) is encode, copy.deepcopy(encode) is encode]
    print(found, os.read.__name__, repr(os.read)[:10])
    warn()
    encode("warn")
    return index

if __name__ == "__main__":
    logging.basicConfig(format="%(filename)s:%(lineno)d %(message)s", stream=sys.stdout)
    buffer = io.BytesIO()
    Image.effect_noise((64, 64), 60).save(buffer, "jpeg")
    CUT = buffer.getvalue()[:700]
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.5  # s: so long are workers waited for
    gc.freeze()  # what is imported need not be gone through each time
    for action in (missing, text, no_picture, cut_picture, closed, failing_encoder):
        catch(lambda: load(Broken(action)))
    catch(lambda: load(Numbers(), collate_fn=collate))
    catch(lambda: load(BrokenStream()))
    catch(lambda: load(BrokenStream(), collate_fn=collate))
    catch(lambda: load(Broken(missing), num_workers=1))
    catch(lambda: load(Broken(cut_picture), num_workers=1))
    catch(lambda: encode(None))
    load(Broken(look))
    print(builtins.open is OPEN is io.open, os.read is READ)
    class Holder:
        from_file = np.fromfile
        encode = encode
    Holder().from_file("script.py", dtype=np.uint8)
    print(np.fromfile.__name__, repr(np.fromfile), pickle.dumps(np.fromfile))
    print(Holder().encode(), sys.stderr.flush())
"""
# Under a name that the table of stages knows.
LIBRARY = '''
import logging, sys, types, warnings
def word_tokenize(text="", *, more=1) -> list:
    """Encode."""
    if text is None:
        raise TypeError("no text")
    if text == "warn":
        warnings.warn("from the library", UserWarning, stacklevel=2)
        logging.getLogger("library").warning("logged", stacklevel=2)
    return [str(text)[:3], more]
def warn():
    warnings.warn("from here", UserWarning, stacklevel=2)
'''


def test_errors_warnings_names_and_files_are_as_without_us(tmp_path: Path) -> None:
    (tmp_path / "nltk").mkdir()
    (tmp_path / "nltk" / "__init__.py").touch()
    (tmp_path / "nltk" / "tokenize.py").write_text(LIBRARY)
    printed: list[tuple[str, str]] = []
    for is_recorded in (False, True):
        recorded = run_script(tmp_path, SCRIPT, is_recorded=is_recorded)
        printed.append((recorded.out, recorded.error))
        assert bool(recorded.rows) == is_recorded
    assert printed[0][0].count("Traceback") == 12 + 2  # two of them within one of torch's
    assert "UserWarning: from the library\n  encode(" in printed[0][1]
    plain_texts, recorded_texts = (
        [_without_addresses(text) for text in texts] for texts in printed
    )
    assert recorded_texts == plain_texts


def _without_addresses(text: str) -> str:
    return re.sub("0x[0-9a-f]+", "0x", text)


def test_a_recorder_that_fails_leaves_the_training_alone(tmp_path: Path) -> None:
    script = """
    import sys, builtins
    if __name__ == "__main__":
        opened = builtins.open
        fetch = sys.modules["_gapless.payload.hooks.fetch"]
        def broken(*args):
            raise RuntimeError("of ours")
        fetch._row = broken
        loader = DataLoader(Numbers(), batch_size=2)
        print([batch.sum().item() for batch in loader], builtins.open is opened)
        fetch.measure.gauge = broken
        iterator = iter(loader)
        print([batch.sum().item() for batch in iterator], builtins.open is opened)
        print(iterator._dataset_fetcher.collate_fn is loader.collate_fn)
        sys.modules["_gapless.payload.recorder"].flush()
    """
    recorded = run_script(tmp_path, script)
    assert recorded.out == "[4, 20, 36, 52] True\n[4, 20, 36, 52] True\nTrue\n"
    assert recorded.error == ""
    assert recorded.rows == []
    notes = [note for note in recorded.texts(wire.UNOBSERVED) if "of ours" in note["why"]]
    assert {note["what"] for note in notes} == {"fetch"}
