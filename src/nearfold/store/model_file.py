"""Models in files: `save`, `load`, `inspect`, `verify`.

A `.nearfold` file is a JSON manifest and the model's arrays in the safetensors layout, hashed and
versioned (model_layout.py). It holds no pickle: opening one never runs code from it, whoever wrote
it. Every method of the registry can be saved, alone or in a scikit-learn pipeline with its plain
preprocessors, and gives bit-equal results after loading on the same machine with the same versions.

A file may be written while others read it: it takes its place in one step (atomic.py).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from nearfold.blocks import require_memory
from nearfold.errors import InputError, ModelFileError, quoted, reason, warn
from nearfold.messages import Message, sentences
from nearfold.state import StateError, state_of
from nearfold.store.atomic import write_atomically
from nearfold.store.model_allowlist import AllowList
from nearfold.store.model_card import ModelCard, make_card
from nearfold.store.model_check import check_objects, default_behaviour
from nearfold.store.model_decode import Decoder
from nearfold.store.model_encode import Encoder
from nearfold.store.model_error import invalid, one_line, refusing
from nearfold.store.model_layout import (
    MAJOR,
    MINOR,
    Opened,
    check_payload,
    open_checked,
    pack_manifest,
    parse_json,
)
from nearfold.store.model_tensors import TensorReader, pack_arrays

__all__ = ["ModelCard", "ModelFileError", "inspect", "load", "load_with_card", "save", "verify"]

_PACKAGES = ("numpy", "scipy", "scikit-learn")
_LONG_SETTING = 160


def save(model: Any, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None) -> Path:
    """Write a fitted estimator to a file, whole or not at all; returns the path.

    `extra` is kept beside the model and given back by `inspect`: anything JSON can hold, such as
    the schema of the table or the score.

    Examples
    --------
    >>> import tempfile
    >>> from nearfold import PCA
    >>> from nearfold.store.model_file import inspect, load, save
    >>> model = PCA(1).fit([[0.0, 1.0], [2.0, 5.0], [4.0, 8.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, f"{folder}/x.nearfold", extra={"score": 0.9})
    ...     again, card = load(path), inspect(path)
    >>> bool((again.transform([[1.0, 1.0]]) == model.transform([[1.0, 1.0]])).all())
    True
    >>> card.model, card.holds_training_rows, card.extra
    ('nearfold.PCA', False, {'score': 0.9})
    """
    _check_fitted(model)
    _check_path(path)
    encoder = Encoder()
    tree = encoder.encode(model, type(model).__name__)
    try:
        check_objects(encoder.objects, stored=False)
    except StateError as error:
        raise InputError(Message("model.not_as_said", why=quoted(str(error)))) from error
    payload = pack_arrays(encoder.arrays)
    manifest = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "model": _describe(model),
        "extra": _check_extra(extra),
        "payload": {"bytes": payload.n_bytes, "sha256": payload.sha256()},
        "states": _states(encoder.objects),
        "tree": tree,
    }
    head = pack_manifest(manifest, payload.n_bytes)

    def write(file: BinaryIO) -> None:
        file.write(head)
        payload.write(file)

    return write_atomically(path, write)


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file, after all of the file has been checked.

    Raises `ModelFileError`, in one line, if it is damaged, invalid, foreign or too new.
    """
    return load_with_card(path)[0]


def load_with_card(path: str | os.PathLike[str]) -> tuple[Any, ModelCard]:
    """The model in a file and its card, from one reading."""
    _check_path(path)
    with refusing(path), open_checked(path) as opened:
        card = _card(opened, path)
        check_payload(opened)
        what, advice = Message("memory.model", name=card.name), Message("memory.advice.model")
        require_memory(opened.payload_bytes, what, advice)
        try:
            decoder = Decoder(TensorReader(opened), opened.payload_bytes)
            model = decoder.model(opened.manifest.get("tree"))
            about = _identity(model)
            if (card.model, card.n_features, card.feature_names) != tuple(about.values()):
                raise invalid("it is not what the manifest says")
        except ModelFileError as error:
            raise ModelFileError(sentences([reason(error), *_newer(card)])) from error
    if card.format[1] > MINOR:
        formats = {"format": f"{MAJOR}.{card.format[1]}", "own": f"{MAJOR}.{MINOR}"}
        warn(Message("model.passed_over", name=card.name, **formats))
    return model, card


def inspect(path: str | os.PathLike[str]) -> ModelCard:
    """What a file says of itself: the header and the manifest are checked, no array is read."""
    _check_path(path)
    with refusing(path), open_checked(path) as opened:
        return _card(opened, path)


def verify(path: str | os.PathLike[str]) -> ModelCard:
    """Check all of a file: every hash and shape, that the model can be built, and is fitted."""
    model, card = load_with_card(path)
    with refusing(path):
        try:
            _check_fitted(model)
        except InputError as error:
            raise ModelFileError(reason(error)) from error
    return card


def _check_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike):
        raise InputError(Message("model.no_path", kind=type(path).__name__))


def _card(opened: Opened, path: str | os.PathLike[str]) -> ModelCard:
    size = opened.payload_start + opened.payload_bytes
    return make_card(Path(path).name, opened.manifest, opened.version, size)


def _newer(card: ModelCard) -> list[Message]:
    if card.format[1] <= MINOR:
        return []
    wrote = one_line(card.versions.get("nearfold", "?"), 20)
    return [Message("model.newer", wrote=wrote, own=_own_version())]


def _check_fitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, type) or not hasattr(model, "fit"):
        raise InputError(Message("model.no_estimator", kind=type(model).__name__))
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise InputError(Message("model.not_fitted", kind=type(model).__name__)) from error


def _own_version() -> str:
    # Not imported: the package's front page names layers that are above this one.
    version: str = sys.modules["nearfold"].__version__
    return version


def _versions() -> dict[str, str]:
    found = {"nearfold": _own_version(), "python": platform.python_version()}
    return found | {package: metadata.version(package) for package in _PACKAGES}


def _describe(model: Any) -> dict[str, Any]:
    """What people ask first, readable without building the model."""
    params = model.get_params(deep=True)
    stored = {**model.get_params(deep=False), **default_behaviour(type(model))}
    seeds = {key: value for key, value in params.items() if key.endswith("random_state")}
    known = {key: _plain(value) for key, value in seeds.items() if value is not None}
    return {
        **_identity(model),
        "description": one_line(_in_words(model), 500),
        "params": {key: _plain(value) for key, value in stored.items()},
        "seed": known.get("random_state") if set(known) <= {"random_state"} else known,
        "n_outputs": _count_outputs(model),
    }


def _identity(model: Any) -> dict[str, Any]:
    """What the manifest says of a model and the model itself must confirm."""
    names = getattr(model, "feature_names_in_", None)
    features = getattr(model, "n_features_in_", None)
    return {
        "class": AllowList().name(type(model)),
        "n_features": None if features is None else int(features),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def _states(objects: list[Any]) -> dict[str, dict[str, str]]:
    """What the classes in the file hold, for people; a reader asks its own classes."""
    allowed = AllowList()
    found = {allowed.name(cls): state_of(cls) for cls in dict.fromkeys(map(type, objects))}
    return {str(name): state.describe() for name, state in found.items() if state and state.fields}


def _in_words(model: Any) -> str:
    """The estimator as it prints itself, a pipeline as its steps; settings that are long lists are
    left out.
    """
    steps = getattr(model, "steps", None)
    if steps is not None:
        return ", then ".join(_in_words(step) for _, step in steps)
    text = repr(model)
    return text if len(text) <= _LONG_SETTING else f"{type(model).__name__}(...)"


def _plain(value: Any) -> Any:
    """A parameter as JSON, or as a short text."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int or (type(value) is float and value - value == 0.0):
        return value
    return one_line(repr(value), 80)


def _count_outputs(model: Any) -> int | None:
    if not hasattr(model, "transform"):
        return None
    counted = getattr(model, "_n_features_out", None)
    if counted is not None:
        return int(counted)
    try:
        return len(model.get_feature_names_out())
    except Exception:  # some scikit-learn steps cannot tell their names; the count is a courtesy
        return None


def _check_extra(extra: dict[str, Any] | None) -> dict[str, Any]:
    if extra is not None and not isinstance(extra, dict):
        raise InputError(Message("model.no_dict"))
    try:
        # Read as the file will be read, so that what is written can be opened.
        return parse_json(json.dumps(extra or {}, allow_nan=False).encode("ascii"), "extra")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(Message("model.bad_extra", why=reason(error))) from error
