"""The parts of gapless that a patch needs, as one file beside the script that needs torch alone."""

import ast
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import libcst as cst
from msgspec import Struct
from msgspec.structs import replace

from gapless.apply.code.project import Project
from gapless.apply.code.source import SourceFile, Splice, UnwritableError
from gapless.apply.code.statements import insert_import
from gapless.apply.edits.arguments import find_calls
from gapless.apply.texts import write_value
from gapless.model.edit import Value, Wrap


class _VendoredPart(Struct, frozen=True):
    """A part as a file of its own, and what of it is called with a loader."""

    name: str  # of the class or function
    files: tuple[str, ...]  # that it consists of, in ``gapless.parts``; the last names the module
    is_loader: bool = True  # what comes of the call is the DataLoader itself
    needs: str = "torch, nothing else"

    @property
    def module(self) -> str:
        """Return the name of the module beside the script."""
        return Path(self.files[-1]).stem


VENDORED_PARTS: Final = {
    "device-prefetcher": _VendoredPart(
        "DevicePrefetcher", ("batches.py", "device_prefetcher.py"), is_loader=False
    ),
    "decode-by-dali": _VendoredPart(
        "decode_by_dali",
        (
            "pipelines.py",
            "jpeg_pixels.py",
            "uint8_pictures.py",
            "jpeg_files.py",
            "batching/dali_batches.py",
        ),
        needs="torch, torchvision, NumPy, Pillow and NVIDIA's DALI",
    ),
    "decode-on-device": _VendoredPart(
        "decode_on_device",
        ("pipelines.py", "jpeg_pixels.py", "uint8_pictures.py", "jpeg_files.py"),
        needs="torch, torchvision and Pillow",
    ),
    "file-cache": _VendoredPart("cache_files", ("read_ahead.py", "caches/file_cache.py")),
    "jpeg-decoder": _VendoredPart(
        "decode_with",
        ("jpeg_decoders.py",),
        needs="torch, NumPy, Pillow and the library that decodes",
    ),
    "length-buckets": _VendoredPart("bucket_by_length", ("batching/length_buckets.py",)),
    "picture-cache": _VendoredPart(
        "cache_pictures",
        ("caches/memory_store.py", "caches/picture_cache.py"),
        needs="torch and Pillow",
    ),
    "packed-data": _VendoredPart(
        "read_packed",
        ("packed_shards.py", "sample_codec.py", "packed_dataset.py", "packed_loader.py"),
        needs="torch, and what the format of the packed data is read with",
    ),
    "read-ahead": _VendoredPart("read_ahead", ("read_ahead.py",)),
    "recycled-collate": _VendoredPart(
        "recycle_batches", ("recycled_memory.py", "recycled_collate.py")
    ),
    "reduced-decoding": _VendoredPart(
        "decode_at_fraction",
        ("pipelines.py", "jpeg_pixels.py", "uint8_pictures.py", "jpeg_files.py"),
        needs="torch and Pillow",
    ),
    "sample-cache": _VendoredPart(
        "cache_samples",
        (
            "sample_codec.py",
            "caches/memory_store.py",
            "caches/disk_store.py",
            "caches/sample_cache.py",
        ),
    ),
    "uint8-by-hand": _VendoredPart(
        "send_handwritten_uint8",
        ("pipelines.py", "uint8_pictures.py", "handwritten_floats.py"),
    ),
    "uint8-in-loop": _VendoredPart(
        "ByteBatches",
        (
            "batches.py",
            "pipelines.py",
            "uint8_pictures.py",
            "handwritten_floats.py",
            "batching/byte_batches.py",
        ),
        is_loader=False,
    ),
    "uint8-to-device": _VendoredPart("send_uint8", ("pipelines.py", "uint8_pictures.py")),
}
_DEFAULTS: Final[Mapping[str, Value]] = {"ahead": 1}  # of options, which need not be written
_LICENCE: Final = "# From gapless, under the Apache License, Version 2.0. It needs"
_NEEDS_LOADERS: Final = re.compile(
    r"\.prepare\(|setup_dataloaders\(|\.fit\(|isinstance\([^\n]*DataLoader"
)


def wrap_loader(project: Project, edit: Wrap) -> Project:
    """Let the batches of a loader come by way of the part. Raises ``UnwritableError``."""
    sites = list(find_calls(project, edit.target, edit.where))
    if not sites:
        raise UnwritableError("the loader is not made by a call in your files")
    if any(_is_constructor(call) for _, call in sites):
        raise UnwritableError("the loader is made by a class of its own")
    part = VENDORED_PARTS[edit.part]
    tail = "".join(f", {name}={write_value(value)}" for name, value in _options(edit)) + ")"
    for source in {source.path: source for source, _ in sites}.values():
        calls = [
            call for owner, call in sites if owner is source and not _is_wrapped(source, call, part)
        ]
        spans = [source.tree.span(call) for call in calls]
        splices = [
            splice
            for start, end in spans
            for splice in (Splice(start, start, f"{part.name}("), Splice(end, end, tail))
        ]
        if splices:
            use = min(start for start, _ in spans)
            splices += insert_import(source, _find_import(project, source, part), use)
        project = project.splice(source, splices)
    return _vendor(project, edit.part)


def _options(edit: Wrap) -> list[tuple[str, Value]]:
    return [(name, value) for name, value in edit.options.items() if _DEFAULTS.get(name) != value]


def _is_constructor(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__"


def _is_wrapped(source: SourceFile, call: cst.Call, part: _VendoredPart) -> bool:
    outer = source.tree.parents[source.tree.parents[call]]
    return isinstance(outer, cst.Call) and source.tree.code(outer.func) == part.name


def _find_import(project: Project, source: SourceFile, part: _VendoredPart) -> str:
    """Return the line that imports the part. Raises ``UnwritableError`` where it cannot be used."""
    line = _write_import(project, source, part)
    if part.name in source.text and line not in source.text:
        raise UnwritableError(f"{source.path.name} has a {part.name} of its own")
    if not part.is_loader and _NEEDS_LOADERS.search(source.text):
        raise UnwritableError("the loader is handed to code that needs a DataLoader")
    return line


def _write_import(project: Project, source: SourceFile, part: _VendoredPart) -> str:
    script = project.script_source().path
    folder = {**project.sources, **project.unreadable}
    is_package = source.path.parent == script.parent and (script.parent / "__init__.py") in folder
    return f"from {'.' if is_package else ''}{part.module} import {part.name}"


def _vendor(project: Project, part: str) -> Project:
    """Put the part beside the script, if it is not there."""
    path = project.script_source().path.parent / f"{VENDORED_PARTS[part].module}.py"
    data = write_part(part).encode()
    if path in project.sources and project.sources[path].data == data:
        return project
    if path in project.sources or path in project.unreadable:
        raise UnwritableError(f"there is a {path.name} already")
    return replace(project, created={**project.created, path: data})


def write_part(part: str) -> str:
    """Return the files of a part as one."""
    folder = Path("parts")
    texts = [
        resources.files("gapless").joinpath(str(folder / name)).read_text("utf-8")
        for name in VENDORED_PARTS[part].files
    ]
    docstring, imports, bodies = "", list[ast.Import | ast.ImportFrom](), list[str]()
    for text in texts:
        tree = ast.parse(text)
        docstring = str(ast.get_docstring(tree))
        lines = text.splitlines(keepends=True)
        last_line = 0
        for node in tree.body[1:]:
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                break
            last_line = node.end_lineno or last_line
            if not (isinstance(node, ast.ImportFrom) and node.level):
                imports.append(node)
        bodies.append("".join(lines[last_line:]).strip("\n"))
    licence = f"{_LICENCE} {VENDORED_PARTS[part].needs}."
    head = f'{licence}\n"""{docstring}"""\n\n{_merge_imports(imports)}\n\n'
    return head + "\n\n\n".join(bodies) + "\n"


def _merge_imports(nodes: list[ast.Import | ast.ImportFrom]) -> str:
    """Return imports once each: ``__future__``, the standard library, torch."""
    plain, names = set[str](), dict[str, set[str]]()
    for node in nodes:
        if isinstance(node, ast.Import):
            plain.add(ast.unparse(node))
        else:
            names.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
    future = names.pop("__future__", set[str]())
    lines = [f"from __future__ import {', '.join(sorted(future))}", ""]
    lines += sorted(plain - {"import torch"})
    lines += [
        f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)
    ]
    return "\n".join([*lines, "", "import torch"])
