"""Nested states ↔ JSON: arrays become references, kernels a class name with fields.

Numbers, text, booleans, None, lists and dicts with text keys stand for themselves. Everything else is an object
with one key that starts with ``$``:

==============================================  ================================================
``{"$array": 3, "dtype": …, "shape": …}``       the array in ``arrays/3.npy``
``{"$labels": […], "shape": …}``                an array of labels (text and numbers as they are)
``{"$tuple": […]}``                             a tuple
``{"$dict": [[key, value], …]}``                a dict with other keys
``{"$float": "nan"}``                           a number that JSON lacks: nan, inf, -inf
``{"$class": "kernels.RBF", "fields": {…}}``    a kernel, feature map, prior or observation of decond
==============================================  ================================================
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from decond.errors import ArgumentTypeError
from decond.io import registry
from decond.io.container import ARRAY_KINDS, HEADER, ModelFileError
from decond.parameters import Parametrized

__all__ = ["Decoder", "Encoder"]


class Encoder:
    """Turns states into JSON trees and collects their arrays.

    >>> encoder = Encoder()
    >>> encoder.encode({"weights": np.zeros((2, 1)), "noise": 0.5}, "model")
    {'weights': {'$array': 0, 'dtype': '<f8', 'shape': [2, 1]}, 'noise': 0.5}
    >>> len(encoder.arrays)
    1
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.names = {cls: name for name, cls in registry.modules().items()}
        self._seen: dict[Any, int] = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return a JSON tree; `path` says where we are, for messages."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is dict:
            return self._dict(value, path)
        if type(value) is np.ndarray:
            return self._array(value, path)
        if isinstance(value, Parametrized):
            return self._module(value, path)
        raise ArgumentTypeError(
            path,
            f"{path} is a {type(value).__name__}, which cannot be saved; numbers, text, lists, dicts, NumPy arrays "
            "and decond's own kernels can. Give the estimator one of these (for a table, its .to_numpy()).",
        )

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, f"{path}.{key}") for key, item in value.items()}
        return {
            "$dict": [[self.encode(key, path), self.encode(item, f"{path}[{key!r}]")] for key, item in value.items()]
        }

    def _array(self, value: np.ndarray, path: str) -> Any:
        if value.dtype.kind == "O":
            items = [self.encode(item, path) for item in value.ravel().tolist()]
            return {"$labels": items, "shape": list(value.shape)}
        if value.dtype.kind not in ARRAY_KINDS or value.dtype.names is not None:
            raise ArgumentTypeError(
                path, f"{path} is an array of {value.dtype}, which cannot be saved. Convert it to numbers or text."
            )
        content = hashlib.sha256(value.tobytes()).digest()  # equal arrays are stored once
        key = (value.dtype.str, value.shape, np.isfortran(value), content)
        index = self._seen.setdefault(key, len(self.arrays))
        if index == len(self.arrays):
            self.arrays.append(value)
        return {"$array": index, "dtype": value.dtype.str, "shape": list(value.shape)}

    def _module(self, value: Parametrized, path: str) -> Any:
        name = self.names.get(type(value))
        if name is None:
            raise ArgumentTypeError(
                path,
                f"{path} is a {type(value).__name__}, a class of your own, and a model file can hold only decond's "
                "own kernels and features: loading never runs code that a file names. Compose the kernel from "
                "decond.kernels, or keep a script that fits the model again.",
            )
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"$class": name, "fields": {key: self.encode(item, f"{path}.{key}") for key, item in fields.items()}}


class Decoder:
    """Turns JSON trees back into states; `array` returns the array with a given number, a new one each time.

    >>> Decoder([np.ones(3)].__getitem__).decode({"$tuple": [{"$array": 0, "dtype": "<f8", "shape": [3]}, None]})
    (array([1., 1., 1.]), None)
    """

    def __init__(self, array: Callable[[int], np.ndarray]) -> None:
        self.array = array
        self.classes = registry.modules()

    def decode(self, tree: Any) -> Any:
        """Return what `Encoder.encode` was given."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        tag = next((key for key in tree if key.startswith("$")), None)
        if tag is None:
            return {key: self.decode(item) for key, item in tree.items()}
        decode_tagged = self._tagged.get(tag)
        if decode_tagged is None:
            raise ModelFileError(
                f"the header of the model file has an unknown mark {tag!r}; the file was changed.", entry=HEADER
            )
        return decode_tagged(self, tree)

    def _decode_array(self, tree: dict[str, Any]) -> np.ndarray:
        array = self.array(tree["$array"])
        if array.dtype.str != tree["dtype"] or list(array.shape) != tree["shape"]:
            raise ModelFileError(
                f"array {tree['$array']} of the model file is {array.dtype.str} of shape {list(array.shape)}, but "
                f"the header says {tree['dtype']} of shape {tree['shape']}; the file was changed or damaged.",
                entry=f"arrays/{tree['$array']}.npy",
            )
        return array

    def _decode_labels(self, tree: dict[str, Any]) -> np.ndarray:
        labels = np.empty(len(tree["$labels"]), dtype=object)
        for i, item in enumerate(tree["$labels"]):
            labels[i] = self.decode(item)
        return labels.reshape(tree["shape"])

    def _decode_tuple(self, tree: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in tree["$tuple"])

    def _decode_dict(self, tree: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in tree["$dict"]}

    def _decode_float(self, tree: dict[str, Any]) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[tree["$float"]]

    def _decode_class(self, tree: dict[str, Any]) -> Any:
        name = tree["$class"]
        if not isinstance(name, str) or name not in self.classes:
            raise ModelFileError(
                f"the model file names {name!r}, which is not a kernel, feature map, prior or observation of this "
                "decond. The file was changed, or written by a newer decond.",
                entry=HEADER,
            )
        return self.classes[name](**{key: self.decode(item) for key, item in tree["fields"].items()})

    _tagged: ClassVar[dict[str, Callable[["Decoder", dict[str, Any]], Any]]] = {
        "$array": _decode_array,
        "$labels": _decode_labels,
        "$tuple": _decode_tuple,
        "$dict": _decode_dict,
        "$float": _decode_float,
        "$class": _decode_class,
    }
