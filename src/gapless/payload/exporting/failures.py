"""Why a model cannot be exported: the user's line, the construct on it, and what helps.

Taken from the exporter's own error: its class, its words, and the frames of its traceback and of
those it came from.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from typing import Any, NamedTuple

_MAX_WORDS = 300  # characters of an error
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # torch.onnx colours its errors
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')


class _RefusedConstruct(NamedTuple):
    """A construct that exporters refuse: by which words of error or line it is known."""

    name: str
    error: str  # regular expression, of the error's class and text; "": any
    line: str  # likewise, of the user's line; "": any
    help: str


_CONSTRUCTS = (
    _RefusedConstruct(
        "a number read out of a tensor",
        r"GuardOnDataDependent|data-dependent|DataDependentOutput|\.item\(|_local_scalar_dense",
        r"\.item\(|\.tolist\(|\bint\(|\bfloat\(|\brange\(",
        "keep it a tensor (torch.where, masks, index_select); where it must be a number, say what "
        "it may be: torch._check(n >= 0), torch._check(n <= limit)",
    ),
    _RefusedConstruct(
        "control flow that depends on data",
        r"GuardOnDataDependent|data-dependent|DynamicControlFlow|dynamic control flow"
        r"|bool\(\) on a tensor|DataDependentOutput",
        "",
        "compute both sides and choose with torch.where, or write torch.cond(predicate, one, "
        "other); a check that only raises: torch._assert_async, or leave it out of forward",
    ),
    _RefusedConstruct(
        "a shape that depends on data",
        r"DynamicOutputShape|nonzero|masked_select",
        "",
        "masks of a fixed size in place of boolean indexing, nonzero or unique",
    ),
    _RefusedConstruct(
        "a tensor that leaves torch",
        r"numpy|not supported for tensor subclasses|data pointer|FakeTensor.*storage",
        r"\.numpy\(|\bnp\.|numpy|PIL|\.cpu\(",
        "write that part with torch operators, or do it before forward",
    ),
    _RefusedConstruct(
        "an effect outside the model",
        r"side effect|mutat|global|was assigned|attribute.*during export|pytree output",
        "",
        "return the value in place of storing it; register what lasts as a buffer",
    ),
    _RefusedConstruct(
        "an input that is no tensor",
        r"[Uu]nsupported input type|not a valid JAX type|pytree.*register|register_pytree|Expected"
        r".*(?:Tensor|int).*as input",
        "",
        "hand tensors, numbers and containers of these to forward (use_cache=False of a "
        "transformer), or register the class with torch.utils._pytree.register_pytree_node",
    ),
    _RefusedConstruct(
        "an operator that the target does not have",
        r"No ONNX function|DispatchError|UnsupportedOperator|missing a decomposition"
        r"|not implemented|NotImplementedError|[Uu]nsupported op|has no lowering|MissingOperator",
        "",
        "write it with other operators, register a custom translation (torch.onnx.export "
        "custom_translation_table, torch.library), or take another format",
    ),
    _RefusedConstruct(
        "a dimension that is not free",
        r"Constraint|specialized|marked.*dynamic",
        "",
        "leave it fixed, or compute with x.shape[n] in place of a number of your own",
    ),
    _RefusedConstruct(
        "code that the tracer does not follow",
        r"torch\._dynamo|Unsupported|graph break|torch\.jit",
        "",
        "move it out of forward, or write it with torch operators alone",
    ),
    _RefusedConstruct(
        "a compiler that is not there",
        r"compiler|g\+\+|ninja|InvalidCxxCompiler|CppCompileError|triton",
        "",
        "install a C++ compiler (Debian: apt install g++), and Triton where there is a GPU",
    ),
)


def describe(error: BaseException) -> dict[str, Any]:
    """Return what failed: ``error``, ``construct``, ``help``, ``file``, ``line``, ``source``.

    ``None`` where it is not known.
    """
    chain = _list_chain(error)
    text = "\n".join(f"{type(link).__module__}.{type(link).__name__}: {link}" for link in chain)
    file, line = _find_line(chain, text)
    source = linecache.getline(file, line).strip() if file else ""
    construct = _find_construct(text, source)
    return {
        "error": _first_words(error),
        "construct": None if construct is None else construct.name,
        "help": None if construct is None else construct.help,
        "file": file,
        "line": line,
        "source": source[:_MAX_WORDS] or None,
    }


def _list_chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that it came from."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return chain


def _first_words(error: BaseException) -> str:
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    words = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return words[:_MAX_WORDS]


def _find_line(chain: list[BaseException], text: str) -> tuple[str | None, int]:
    """Return the innermost line that is neither torch's nor Python's nor ours.

    The user's own comes before that of an installed package; the first cause before what came of
    it.
    """
    frames: list[tuple[str, int]] = []
    for link in chain:
        entries = traceback.extract_tb(link.__traceback__)
        frames += [(entry.filename, entry.lineno or 0) for entry in reversed(entries)]
    frames += [(file, int(line)) for file, line, _ in reversed(_FRAME.findall(text))]
    foreign_frames = [frame for frame in frames if not _is_machinery(frame[0])]
    own_frames = [frame for frame in foreign_frames if not _is_installed(frame[0])]
    return next(iter(own_frames or foreign_frames), (None, 0))


def _is_machinery(file: str) -> bool:
    """Return whether a file is torch's, an exporter's, Python's or ours, or none at all."""
    if file.startswith("<") or not os.path.isfile(file):
        return True
    ours = os.path.dirname(os.path.dirname(__file__))
    folders = [ours, sysconfig.get_path("stdlib")]
    packages = (
        "torch",
        "onnxscript",
        "onnx_ir",
        "onnx",
        "onnxruntime",
        "torch_tensorrt",
        "typing_extensions",
    )
    for name in packages:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin:
            folders.append(os.path.dirname(origin))
    if any(file.startswith(folder + os.sep) for folder in folders[:1] + folders[2:]):
        return True
    return file.startswith(folders[1] + os.sep) and not _is_installed(file)


def _is_installed(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file


def _find_construct(text: str, source: str) -> _RefusedConstruct | None:
    for construct in _CONSTRUCTS:
        is_error = re.search(construct.error, text)
        if is_error and (not construct.line or re.search(construct.line, source)):
            return construct
    return None
