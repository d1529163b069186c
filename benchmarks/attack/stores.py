"""Damaged stores of simulations: the same numbers as before, or an error."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.harness import Try


def stores(folder: Path) -> tuple[Try, float]:
    """Damage a store, read it and go on simulating: the same numbers as before, or an error."""
    from decond import lfi

    path = folder / "whole.sqlite"
    lfi.simulate(simulator, prior(), 60, store=path, summarize=summarize)
    lfi.simulate(simulator, prior(), proposal=np.full((20, 2), 0.5), store=path, summarize=summarize)
    half = folder / "half.sqlite"
    lfi.simulate(simulator, prior(), 30, store=half, summarize=summarize)
    expected = [lfi.simulate(simulator, prior(), n, summarize=summarize) for n in (60, 40)]
    return partial(_try_store, folder / "damaged.sqlite", [path.read_bytes(), half.read_bytes()], expected), 60.0


def prior() -> Any:
    from scipy import stats

    from decond import lfi

    return lfi.Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


def simulator(theta: np.ndarray, rng: np.random.Generator) -> Any:
    if theta[1] < 0.1:
        raise ValueError("share too small")
    return theta[0] * rng.standard_normal((4, 2)) + theta[1]


def summarize(raw: np.ndarray) -> Any:
    return {"mean": raw.mean(), "sd": raw.std()}


def _try_store(path: Path, originals: Sequence[bytes], expected: Sequence[Any], seed: int) -> str:
    from decond import lfi

    rng = np.random.default_rng([2, seed])
    kind = rng.integers(2)
    for rest in ("", "-wal", "-shm"):
        path.with_name(path.name + rest).unlink(missing_ok=True)
    changed = bytearray(originals[kind])
    for _ in range(rng.integers(1, 6)):
        start = int(rng.integers(len(changed)))
        if rng.random() < 0.6:
            changed[start] ^= int(rng.integers(1, 256))
        elif rng.random() < 0.5:
            page = start // 4096 * 4096
            changed[page : page + 4096] = rng.bytes(4096) if rng.random() < 0.5 else bytes(4096)
        else:
            del changed[start:]
            break
    path.write_bytes(changed)
    want = expected[kind]
    with lfi.SimulationStore(path) as store:
        found = store.simulations(0)
    what = differs(found, want, len(found))
    if what:
        return f"reading gives other {what}"
    found = lfi.simulate(simulator, prior(), len(want), store=path, summarize=summarize)
    what = differs(found, want, len(want))
    return f"going on gives other {what}" if what else ""


def differs(found: Any, want: Any, n: int) -> str:
    for name in ("theta", "x", "raw", "valid", "reasons", "names", "summary_names"):
        one, other = getattr(found, name, None), getattr(want, name, None)
        if one is not None and other is not None and name not in ("names", "summary_names"):
            one, other = one[:n], other[:n]
        if not np.array_equal(_comparable(one), _comparable(other)):
            return name
    return ""


def _comparable(value: Any) -> Any:
    array = np.asarray(value)
    return np.nan_to_num(array, nan=-7.0) if array.dtype.kind == "f" else array.astype(str)
