"""What TensorBoard loads by the entry point ``tensorboard_plugins``; imported by nothing else."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin

from gapless.tab.entries import find_entries
from gapless.tab.serving import MODULE, App, make_apps


class GaplessTab(base_plugin.TBPlugin):
    """The tab; it is there if the folder of logs holds a run or a trace."""

    plugin_name = "gapless"

    def __init__(self, context: Any) -> None:  # noqa: ANN401 - TensorBoard's
        logs = getattr(context, "logdir", None)
        self._logs = Path(logs).expanduser() if logs else None

    def get_plugin_apps(self) -> dict[str, App]:
        """Return the applications by route."""
        return {} if self._logs is None else make_apps(self._logs)

    def is_active(self) -> bool:
        """Return whether there is something to show."""
        return self._logs is not None and bool(find_entries(self._logs))

    def frontend_metadata(self) -> Any:  # noqa: ANN401 - TensorBoard's
        """Return the module that draws the tab, and its name."""
        return base_plugin.FrontendMetadata(
            es_module_path=MODULE, tab_name="gapless", disable_reload=True
        )
