"""One self-contained file: a template, the styles, the scripts, and the charts' columns as JSON."""

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from gapless.errors import UsageError
from gapless.model.version import version

_FOLDER: Final = Path(__file__).parent
_LIBRARY: Final = ("bokeh.min.js", "bokeh-api.min.js")
_STYLES: Final = ("page.css",)
_SCRIPTS: Final = ("tables.js", "charts.js", "timeline.js", "flame.js", "trials.js", "page.js")
# What could end a script or begin a comment in it, or is no text in older JavaScript.
_UNSAFE: Final = re.compile("[<>&\u2028\u2029]")
_ADVICE: Final = "a page needs bokeh and Jinja2: pip install 'gapless[html]'"


def render_page(template: str, context: Mapping[str, object], charts: Mapping[str, object]) -> str:
    """Return a page as text. Raises ``UsageError`` without the libraries that it needs.

    Whatever ``context`` holds is escaped by the template; ``charts`` is what the scripts draw.
    """
    check_libraries()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - an extra

    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{template}.html").render(
        context,
        version=version(),
        styles=_read_assets(_STYLES),
        library=read_library(),
        scripts=_read_assets(_SCRIPTS),
        charts=encode_json(charts),
    )


def check_libraries() -> None:
    """Raise ``UsageError`` if a library is missing, with the command that installs it."""
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError(_ADVICE)
    read_library()


def encode_json(value: object) -> str:
    """Write JSON that can stand in a script element, whatever its strings hold."""
    text = msgspec.json.encode(value).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


@cache
def read_library() -> str:
    """Return BokehJS, from the wheel of bokeh. Raises ``UsageError`` if it is not installed."""
    spec = importlib.util.find_spec("bokeh")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    try:
        scripts = [
            (Path(folder) / "server" / "static" / "js" / name).read_text(encoding="utf-8")
            for folder in folders[:1]
            for name in _LIBRARY
        ]
    except OSError:
        scripts = []
    if not scripts:
        raise UsageError(_ADVICE)
    # The maps of the sources are asked for by a browser's tools, and are not in the file.
    return "\n".join(re.sub(r"//# sourceMappingURL=\S+", "", script) for script in scripts)


def _read_assets(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / "assets" / name).read_text(encoding="utf-8") for name in names)
