"""(being written)"""

from typing import Any


def lay(number: int, edit: Any) -> Any:
    """Lay an edit; give what takes it off."""
    raise NotImplementedError
