"""Results as plain values, for JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from nearfold.messages import Message


def plain(value: Any) -> Any:
    """What JSON can say: messages in both languages, NumPy's values as Python's, NaN as null."""
    if isinstance(value, Message):
        return value.as_dict()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class AsJson:
    """What has `to_dict` also has `to_json`."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        raise TypeError(f"{type(self).__name__} does not say what it holds.")

    def to_json(self) -> str:
        """`to_dict` as a JSON document."""
        return to_json(self.to_dict())


def to_json(value: Any) -> str:
    """A JSON document."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)
