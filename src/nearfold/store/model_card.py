"""What is in a model file, for people: which method, what it takes and gives, what it keeps.

Whether a file holds training rows is not a claim of its writer: it is read off the tree that
`load` would build. Raw rows are found by rule:

  - by name: what neighbour searches, kernels and embeddings keep to place new rows by
    (`_fit_X`, `X_fit_`, ...), and the table a metric learner was given to look ids up in;
  - by shape: an array of (rows fitted on) x (columns), where an estimator says how many those were.

Any array with one entry for each of those rows (an embedding, labels, distances) is listed as
derived from them. Values of single columns (categories, quantiles) are neither.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, field
from typing import Any

from nearfold.blocks import show_bytes
from nearfold.messages import Message, catalogue
from nearfold.store.model_error import invalid, one_line

_ROW_NAMES = {"_fit_X", "X_fit_", "_landmark_rows", "_pivot_rows", "preprocessor"}
_INDEXES = "nearfold.neighbors."  # classes whose X are rows
_COUNTS = ("n_samples_fit_", "n_samples_", "n_samples_seen_")
_NEVER_ROWS = {"components_"}  # as many axes as rows is no accident where columns outnumber rows
_DERIVED_NAMES = {"embedding_", "X_transformed_fit_"}


@dataclass(frozen=True)
class StoredArray:
    """An array of a model file: where it belongs, its shape and its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{one_line(self.name, 60)} ({' x '.join(f'{n:,}' for n in self.shape)})"


@dataclass(frozen=True)
class ModelCard:
    """What a model file says of itself; `str(card)` is for people, `as_dict` for machines."""

    name: str  # of the file
    model: str  # the class
    description: str  # the estimator as it prints itself
    params: dict[str, Any]
    seed: Any
    n_features: int | None
    feature_names: list[str] | None
    n_outputs: int | None
    created: str
    versions: dict[str, str]
    format: tuple[int, int]
    file_bytes: int
    payload_sha256: str
    arrays: list[StoredArray] = field(repr=False)
    training_rows: list[StoredArray]  # the rows the model was fitted on, or some of them
    derived_rows: list[StoredArray]  # one entry for each such row: embedding, labels, distances
    extra: dict[str, Any] = field(repr=False)

    @property
    def holds_training_rows(self) -> bool:
        """Whether rows that the model was fitted on can be read from the file."""
        return bool(self.training_rows)

    @property
    def holds_embedding(self) -> bool:
        """Whether coordinates of the training rows are in the file."""
        return any(_last(array.name) in _DERIVED_NAMES for array in self.derived_rows)

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        found = asdict(self)
        for key in ("arrays", "training_rows", "derived_rows"):
            found[key] = [dict(array, shape=list(array["shape"])) for array in found[key]]
        found["format"] = list(self.format)
        found["holds_training_rows"] = self.holds_training_rows
        found["holds_embedding"] = self.holds_embedding
        return found

    def text(self, language: str = "en") -> str:
        """For people."""
        then = Message("card.then").text(language)
        written = Message(
            "card.written_by",
            when=one_line(self.created, 40),
            versions=[f"{name} {one_line(v, 20)}" for name, v in self.versions.items()],
        )
        lines: dict[str, Any] = {
            "model": then.join(one_line(self.description, 200).split(", then ")),
            "takes": _show_columns(self.n_features, self.feature_names),
            "gives": "" if self.n_outputs is None else Message("words.columns", n=self.n_outputs),
            "score": self._score(),
            "check": self._check(),
            "seed": "" if self.seed is None else one_line(str(self.seed), 80),
            "rows": self._about_rows(),
            "written": written,
            "file": Message("card.file_size", size=show_bytes(self.file_bytes), n=len(self.arrays),
                            format=f"{self.format[0]}.{self.format[1]}"),
            "also": ", ".join(one_line(key, 40) for key in list(self.extra)[:20]),
        }  # fmt: skip
        shown = {
            Message(f"card.{word}").text(language): value for word, value in lines.items() if value
        }
        width = max(len(word) for word in shown)
        body = [f"  {word:<{width}} {v.text(language) if isinstance(v, Message) else v}"
                for word, v in shown.items()]  # fmt: skip
        return "\n".join([one_line(self.name, 100), *body])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"

    def _score(self) -> Message | str:
        """The held-out score that a comparison gave the space, if it was one."""
        score, interval = self.extra.get("score"), self.extra.get("interval")
        ends = interval if isinstance(interval, list) and len(interval) == 2 else []
        numbers = [score, *ends]
        if len(numbers) != 3 or not all(isinstance(v, int | float) for v in numbers):
            return ""
        mean, low, high = (f"{float(v):.4g}" for v in numbers)
        given = one_line(str(self.extra.get("score_name", "")), 40)
        name = Message(f"score.{given}") if f"score.{given}" in catalogue("en") else given
        return Message("card.score_line", name=name, score=mean, low=low, high=high)

    def _check(self) -> Message | str:
        """What the last check said."""
        check = self.extra.get("last_check")
        if not isinstance(check, dict):
            return ""
        try:
            ours, theirs, p = (f"{float(check[k]):.4g}" for k in ("winner", "reference", "p"))
            n, holds = int(check["rows"]), bool(check["holds"])
        except (KeyError, TypeError, ValueError):
            return ""
        return Message("card.holds" if holds else "card.fails", n=n, ours=ours, theirs=theirs, p=p)

    def _about_rows(self) -> Message:
        if self.training_rows:
            return Message("card.holds_rows", arrays=[str(a) for a in self.training_rows[:4]])
        if self.derived_rows:
            return Message("card.derived", arrays=[str(a) for a in self.derived_rows[:4]])
        return Message("card.no_rows")


def make_card(
    name: str, manifest: dict[str, Any], version: tuple[int, int], file_bytes: int
) -> ModelCard:
    """The card of a manifest, every entry of it checked."""
    about = _entry(manifest, "model", dict)
    walk = _Walk()
    walk.visit(manifest.get("tree"), "")
    names = _entry(about, "feature_names", list, None)
    versions = _entry(manifest, "versions", dict)
    return ModelCard(
        name=name,
        model=_entry(about, "class", str),
        description=_entry(about, "description", str),
        params=_entry(about, "params", dict),
        seed=about.get("seed"),
        n_features=_entry(about, "n_features", int, None),
        feature_names=None if names is None else [str(column) for column in names],
        n_outputs=_entry(about, "n_outputs", int, None),
        created=_entry(manifest, "created", str),
        versions={str(key): str(value) for key, value in versions.items()},
        format=version,
        file_bytes=file_bytes,
        payload_sha256=_entry(_entry(manifest, "payload", dict), "sha256", str),
        arrays=walk.arrays,
        training_rows=walk.rows,
        derived_rows=walk.derived(),
        extra=_entry(manifest, "extra", dict, {}),
    )


def _entry(table: dict[str, Any], key: str, kind: type[Any], *default: Any) -> Any:
    value = table.get(key, *default) if default else table.get(key)
    if value is None and default:
        return default[0]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise invalid(f"no {key!r} in the manifest")
    return value


class _Walk:
    """Goes through a tree once and sorts its arrays, each under the first of its names."""

    def __init__(self) -> None:
        self.arrays: list[StoredArray] = []
        self.rows: list[StoredArray] = []
        self._counts: set[int] = set()  # of rows fitted on
        self._shared: dict[Any, StoredArray] = {}

    def visit(self, node: Any, path: str, owner: str = "", about: Any = None) -> None:
        """Sort the arrays of a node; `owner` and `about` are the class and state it belongs to."""
        if isinstance(node, list):
            for i, item in enumerate(node):
                self.visit(item, f"{path}.{i}", owner)
        if not isinstance(node, dict):
            return
        kind = node.get("kind")
        if kind in ("array", "sparse", "objects"):
            array = self._list(node, path.lstrip("."))
            self._sort(array, _last(path), owner, about or {})
        elif kind == "same" and node.get("as") in self._shared:
            self._sort(self._shared[node["as"]], _last(path), owner, about or {})
        if kind == "object":
            state = node.get("state")
            for name, part in state.items() if isinstance(state, dict) else ():
                self.visit(part, f"{path}.{name}", str(node.get("class")), state)
        elif kind == "dict":
            pairs = node.get("items")
            for pair in pairs if isinstance(pairs, list) else ():
                if isinstance(pair, list) and len(pair) == 2:
                    self.visit(pair[1], f"{path}.{str(pair[0])[:40]}", owner)
        elif kind in ("list", "tuple", "objects"):
            self.visit(node.get("items"), path, owner)

    def _list(self, node: dict[str, Any], path: str) -> StoredArray:
        sides = node.get("shape")
        if not isinstance(sides, list) or not all(type(n) is int for n in sides):
            raise invalid("an array without a shape")
        data = node.get("data") if node["kind"] == "sparse" else node
        dtype = data.get("dtype", "object") if isinstance(data, dict) else "?"
        array = StoredArray(path, tuple(sides), str(dtype)[:20])
        self.arrays.append(array)
        if type(node.get("id")) is int:
            self._shared[node["id"]] = array
        return array

    def _sort(self, array: StoredArray, name: str, owner: str, about: dict[str, Any]) -> None:
        sides = array.shape
        named = name in _ROW_NAMES or (name == "X" and owner.startswith(_INDEXES))
        if len(sides) >= 2 and all(sides) and (named or _as_fitted(name, sides, about)):
            if array not in self.rows:
                self.rows.append(array)
            self._counts.add(sides[0])
        elif name in _DERIVED_NAMES and sides:
            self._counts.add(sides[0])

    def derived(self) -> list[StoredArray]:
        """Arrays with one entry for each training row, other than the rows."""
        counted = [a for a in self.arrays if a.shape and a.shape[0] in self._counts]
        return [array for array in counted if array not in self.rows]


def _as_fitted(name: str, sides: tuple[int, ...], about: dict[str, Any]) -> bool:
    """Whether a shape is that of the table which the estimator says it was fitted on."""
    counts = [about.get(key) for key in _COUNTS]
    fitted = [n for n in counts if type(n) is int]
    return name not in _NEVER_ROWS and sides in [(n, about.get("n_features_in_")) for n in fitted]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _show_columns(count: int | None, names: list[str] | None) -> Message | str:
    if count is None:
        return ""
    if not names:
        return Message("words.columns", n=count)
    more = ["..."] if len(names) > 8 else []
    shown = [*(one_line(name, 30) for name in names[:8]), *more]
    return Message("card.columns", n=count, names=shown)
