"""A chosen value, the curve it was read from and the reason in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats
from nearfold.study.plain import AsJson, plain
from nearfold.study.statistics import fold_errors, one_standard_error


@dataclass(frozen=True)
class Curve:
    """What a choice was made from: y at each x, with a standard error where there is one."""

    x: Array
    y: Floats
    error: Floats | None
    x_name: Message
    y_name: Message


@dataclass(frozen=True)
class Choice(AsJson):
    """A chosen value, the curve it was read from and the reason in a sentence."""

    value: Any
    rule: str
    curve: Curve
    reason: Message
    best: Any = None  # where the curve is highest, if that is another one

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; the reason in both languages."""
        curve = {"x": self.curve.x, "y": self.curve.y, "error": self.curve.error}
        found: dict[str, Any] = plain({"value": self.value, "rule": self.rule, "best": self.best,
                                       "reason": self.reason, "curve": curve})  # fmt: skip
        return found

    def __str__(self) -> str:
        return str(self.reason)

    def _repr_html_(self) -> str:
        from nearfold.study.html import paragraph, table

        error = self.curve.error
        rows = [
            [f"{x:.6g}", f"{y:.4f}", "" if error is None else f"± {error[i]:.4f}",
             "chosen" if x == self.value else ""]
            for i, (x, y) in enumerate(zip(self.curve.x, self.curve.y, strict=True))
        ]  # fmt: skip
        heads = [str(self.curve.x_name), str(self.curve.y_name), "", ""]
        return paragraph(self.reason, strong=True) + table(heads, rows[:60])


def pick(
    scores: Floats, tried: Array, rule: str, names: tuple[Message, Message], what: str, n_folds: int
) -> Choice:
    """The choice among `tried`, from scores of folds x choices; with NaN one is out."""
    usable = ~np.isnan(scores).any(axis=0)
    if not usable.any():
        raise InputError(Message("choose.none_serves", what=what, tried=tried.tolist()))
    scores, tried = scores[:, usable], tried[usable]
    mean, error = scores.mean(axis=0), fold_errors(scores, n_folds)
    best = int(np.argmax(mean))
    place = best if rule == "cross_validation" else one_standard_error(scores, n_folds)
    value, top = tried[place].item(), tried[best].item()
    values = {
        "what": what,
        "value": f"{value:.6g}",
        "score": names[1],
        "shown": f"{mean[place]:.4f}",
    }
    if place == best:
        reason = Message("choose.best", error=f"{error[best]:.4f}", n=len(tried), **values)
    else:
        reason = Message("choose.one_se", best=f"{mean[best]:.4f}", top=f"{top:.6g}", **values)
    return Choice(value, rule, Curve(tried, mean, error, *names), reason, top)
