"""Nearfold finds the space in which nearest neighbours mean something.

Public names are loaded when first used, so that `import nearfold` costs next to nothing. Which
there are says nearfold.public_names; type checkers read them in __init__.pyi.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    from nearfold.public_names import homes

    if name == "__all__":
        return sorted(homes())
    module = None if name.startswith("__") else homes().get(name)
    if module is None:
        raise AttributeError(f"module 'nearfold' has no attribute {name!r}")
    return getattr(import_module(f"nearfold.{module}"), name)


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
