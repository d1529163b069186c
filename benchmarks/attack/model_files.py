"""Changed model files: loaded within the limits of time and memory, or refused."""

import contextlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.harness import Try


def models(folder: Path) -> tuple[Try, float]:
    """Change a saved model, its header or its arrays, and load it: refused, or read within the limits."""
    from decond import estimators, features, kernels
    from decond.io import save
    from decond.problems import latent_function

    p = latent_function(30, 40)
    tables, labels = (p.x, p.y, p.y_task, p.z_task), [f"day {i % 10}" for i in range(30)]
    fitted = [
        estimators.DirectGP(n_restarts=0).fit(p.x, np.column_stack([p.x[:, 0] ** 2, p.x[:, 0]])),
        estimators.TaskTransformedGP(n_restarts=0).fit(*tables),
        estimators.TaskTransformedGP(targets="single", n_restarts=0).fit(*tables),
        estimators.AggregateGP(n_restarts=0).fit(p.x, labels, np.linspace(0.0, 1.0, 10)),
        estimators.SparseGP(n_inducing=6).fit(p.x, p.x[:, 0] ** 2),
        estimators.TaskTransformedFeatures(n_features=12).fit(*tables),
        estimators.TaskTransformedRidge(features.Polynomial(3), features.RandomFourier(kernels.RBF(), 50)).fit(
            *tables
        ),
        estimators.DualEmbedding(n_features=12).fit(*tables),
        estimators.CascadeGP(n_restarts=0).fit(*tables),
    ]
    for i, model in enumerate(fitted):
        save(model, folder / f"{i}")
    return partial(_try_model, folder, [(folder / f"{i}").read_bytes() for i in range(len(fitted))]), 60.0


def _try_model(folder: Path, originals: Sequence[bytes], seed: int) -> str:
    rng = np.random.default_rng([1, seed])
    path = folder / "changed"
    content = originals[rng.integers(len(originals))]
    change = (_changed_bytes, _changed_tree, _changed_tree, _changed_array, _bomb)[rng.integers(5)]
    path.write_bytes(change(content, rng))
    return loaded_within_limits(path)


def loaded_within_limits(path: Path) -> str:
    """Return what is wrong with how a model file is loaded and answers; an empty text if nothing is."""
    from decond.io import ModelFileError, load

    size = path.stat().st_size
    start, before = time.process_time(), _memory(reset=True)
    try:
        model, refused = load(path), False
    except ModelFileError:
        model, refused = None, True
    seconds, extra = time.process_time() - start, _memory() - before
    if seconds > 2.0 + size / 1e7:
        return f"load took more than its time ({'refused' if refused else 'loaded'})"
    if extra > 2e8 + 20 * size:
        return f"load took more than its memory ({'refused' if refused else 'loaded'})"
    if model is None:
        return ""
    with contextlib.suppress(MemoryError):  # what rows need together grows with their square, as in fit
        model.predict(np.zeros((1, max(1, model.n_features_in_))))
    return ""


def _memory(reset: bool = False) -> int:
    """Return the peak of this process's memory since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _changed_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, repeat or clear some bytes of the file."""
    changed = bytearray(content)
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 200))
    kind = rng.integers(4)
    if kind == 0:
        for position in rng.integers(len(content), size=rng.integers(1, 9)):
            changed[position] ^= int(rng.integers(1, 256))
    elif kind == 1:
        del changed[start:]
    elif kind == 2:
        changed[start:start] = changed[start : start + length]
    else:
        changed[start : start + length] = bytes(length)
    return bytes(changed)


HOSTILE = (
    *(None, True, False, 0, 1, -1, 2, 10**5, 10**8, 2**62, 10**30, -(10**9), 0.5, -0.5, 1e308, -1e308, 5e-324),
    *("", "a", "x" * 10_000, "\x1b[31m", "9" * 400, "__class__", [], {}, [[]], [[[[]]]], [1, 2, 3], {"$tuple": []}),
    *({"$float": "nan"}, {"$float": "inf"}, {"$labels": [], "shape": [0]}, {"$dict": []}, {"$array": 0}),
    {"$class": "kernels.Power", "fields": {"kernel": {"$class": "kernels.RBF", "fields": {}}, "exponent": 10**6}},
    {"$class": "features.Polynomial", "fields": {"degree": 10**8}},
    {
        "$class": "features.RandomFourier",
        "fields": {"base": {"$class": "kernels.RBF", "fields": {}}, "n_frequencies": 10**9},
    },
    {"$class": "kernels.Constant", "fields": {}},
)


def _changed_tree(content: bytes, rng: np.random.Generator) -> bytes:
    """Change some places of the header: another value, that of another place, a copy, or nothing at all."""
    entries = _entries(content)
    header = json.loads(entries["header.json"])
    for _ in range(rng.integers(1, 4)):
        places = list(_places(header))
        parent, key = places[rng.integers(len(places))]
        kind = rng.integers(4)
        if kind == 0:
            del parent[key]
        elif kind == 1:
            other, name = places[rng.integers(len(places))]
            parent[key] = json.loads(json.dumps(other[name]))
        elif kind == 2 and isinstance(parent, list):
            parent += [parent[key]] * int(rng.choice([1, 1000]))
        else:
            parent[key] = HOSTILE[rng.integers(len(HOSTILE))]
    return _zipped({**entries, "header.json": json.dumps(header).encode()})


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def _changed_array(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace an array, and what the header says of it, by one of other values, another shape or type."""
    entries = _entries(content)
    name = str(rng.choice([entry for entry in entries if entry != "header.json"]))
    array = np.load(io.BytesIO(entries[name]))
    kind = rng.integers(5)
    if kind == 0 and array.size and array.dtype.kind == "f":
        array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, 1e308, -1e200, 5e-324, 0.0])
    elif kind == 1:
        array = array[: len(array) // 2] if array.ndim else np.ones(3)
    elif kind == 2:
        array = array.reshape(rng.permutation([*array.shape, 1]))
    elif kind == 3:
        array = array.astype(rng.choice(["f4", "i8", "?", "U5", ">f8"]))
    else:
        array = np.repeat(array[None], rng.choice([0, 2, 500]), axis=0)
    header = json.loads(entries["header.json"])
    for parent, key in list(_places(header)):
        found = parent[key]
        if isinstance(found, dict) and f"arrays/{found.get('$array')}.npy" == name:
            found.update(dtype=array.dtype.str, shape=list(array.shape))
    return _zipped({**entries, "header.json": json.dumps(header).encode(), name: _npy(array)})


def _bomb(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a small file that asks for much."""
    entries = _entries(content)
    header = json.loads(entries["header.json"])
    size, kind = int(10 ** rng.uniform(3.0, 6.5)), rng.integers(10)
    if kind == 0:  # many rows of one small type
        header["params"] = {"$array": 0, "dtype": "|b1", "shape": [size]}
        return _zipped({"header.json": json.dumps(header).encode(), "arrays/0.npy": _npy(np.ones(size, bool))})
    if kind == 1:  # one array, many times
        first = np.load(io.BytesIO(entries["arrays/0.npy"]))
        reference = {"$array": 0, "dtype": first.dtype.str, "shape": list(first.shape)}
        header["state"] = [reference] * (size // 20)
    elif kind == 2:  # many small things
        header["state"] = [[[], {}, 0.5, "ab"][rng.integers(4)]] * size
    elif kind == 3:
        header["state"] = [{"$class": "kernels.RBF", "fields": {}}] * (size // 30)
    elif kind == 4:
        header["state"] = {"$labels": ["x" * size, *["a"] * (size // 10)], "shape": [1 + size // 10]}
    elif kind == 5:  # powers of powers
        kernel: Any = {"$class": "kernels.RBF", "fields": {}}
        for _ in range(rng.integers(1, 60)):
            kernel = {"$class": "kernels.Power", "fields": {"kernel": kernel, "exponent": int(rng.integers(2, 99))}}
        base = {"$class": "features.RandomFourier", "fields": {"base": kernel, "n_frequencies": 10}}
        _replace(header, "$class", lambda found: base if rng.random() < 0.3 else found)
    elif kind == 6:  # many members
        _replace(header, "values", lambda found: found * (size // 100))
    elif kind == 7:  # many empty arrays
        extra = {f"arrays/{i}.npy": b"" for i in range(size // 100, size // 50)}
        return _zipped({**entries, **extra})
    elif kind == 8:  # a table of many rows
        rows = np.random.default_rng(0).standard_normal((size // 10, 1))
        for parent, key in list(_places(header)):
            found = parent[key]
            if isinstance(found, dict) and "$array" in found and (found["shape"] or [0])[0] in (30, 40):
                parent[key] = {"$array": len(entries) - 1, "dtype": "<f8", "shape": list(rows.shape)}
        entries[f"arrays/{len(entries) - 1}.npy"] = _npy(rows)
    else:
        header["state"] = "[" * size
        text = json.dumps(header).replace(f'"{"[" * size}"', "[" * size + "]" * size)
        return _zipped({**entries, "header.json": text.encode()})
    return _zipped({**entries, "header.json": json.dumps(header).encode()})


def _replace(header: Any, key: str, change: Callable[[Any], Any]) -> None:
    """Change every object that has a key, or what stands under it."""
    for parent, place in list(_places(header)):
        found = parent[place]
        if (key == "$class" and isinstance(found, dict) and key in found) or place == key:
            parent[place] = change(found)


def _entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0))
    return stream.getvalue()
