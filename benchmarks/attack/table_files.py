"""Changed tables, as CSV and Parquet: read into finite numbers and labels, or refused."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.attack.harness import Try

CELLS = (
    *("", "NA", "inf", "-inf", "nan", "1e400", "1e200", "-1e308", "5e-324", "9" * 400, "1,5", "1_000", "0x10", "١٢"),
    *("\x1b[31m", "\x00", '"', "'", "=1+1", "a" * 10_000, "\ufeff", "\r", "\n", ",", ";", "\t"),
    *("2024-01-01", "true", "1e", "--1", "+", "1 2", "∞"),
)


def tables(folder: Path) -> tuple[Try, float]:
    """Change a table, its bytes or its cells, and read it in every way that commands do."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "wind": rng.uniform(0.0, 20.0, 60),
            "höhe": rng.integers(1, 9, 60),
            "day": [f"day {i % 7}" for i in range(60)],
            "power": rng.standard_normal(60),
        }
    )
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_csv(folder / "table.csv.gz", index=False)
    frame.to_parquet(folder / "table.parquet", row_group_size=25)
    frame.to_parquet(folder / "plain.parquet", compression=None, use_dictionary=False)
    frame.to_parquet(folder / "checked.parquet", write_page_checksum=True)
    names = ["table.csv", "table.csv", "table.csv.gz", "table.parquet", "plain.parquet", "checked.parquet"]
    return partial(_try_table, folder, names, frame), 60.0


def _try_table(folder: Path, names: Sequence[str], frame: pd.DataFrame, seed: int) -> str:
    rng = np.random.default_rng([3, seed])
    name = names[rng.integers(len(names))]
    path = folder / f"changed.{name.partition('.')[2]}"
    if rng.random() < 0.4:
        _write_changed_cells(frame, path, rng)
    else:
        path.write_bytes(_changed_bytes((folder / name).read_bytes(), rng))
    problem = _read(path)
    if not problem and path.suffix == ".parquet":
        problem = _streamed(path)
    return problem


def _changed_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, repeat or clear some bytes; half of the time near the end, where Parquet describes itself."""
    changed = bytearray(content)
    least = max(len(content) - 1500, 0) if rng.random() < 0.5 else 0
    for _ in range(rng.integers(1, 5)):
        start, length = int(rng.integers(least, len(content))), int(rng.integers(1, 100))
        kind = rng.integers(5)
        if kind < 2:
            changed[start : start + 1] = rng.bytes(1)
        elif kind == 2:
            changed[start : start + length] = bytes(length)
        elif kind == 3:
            changed[start:start] = changed[start : start + length]
        elif rng.random() < 0.3:
            del changed[start:]
            return bytes(changed)
    return bytes(changed)


def _write_changed_cells(frame: pd.DataFrame, path: Path, rng: np.random.Generator) -> None:
    """Write the table with odd cells, odd names, or a column of another type."""
    changed = frame.astype(object)
    for _ in range(rng.integers(1, 4)):
        cell = CELLS[rng.integers(len(CELLS))]
        if rng.random() < 0.2:
            changed.columns = [cell if i == rng.integers(4) else str(name) for i, name in enumerate(changed.columns)]
        else:
            changed.iloc[rng.integers(len(changed)), rng.integers(4)] = cell
    if path.suffix == ".parquet":
        kinds = ("float32", "int8", "float16", "datetime64[ns]", "category", "bool")
        numbers = frame.copy()
        column = str(rng.choice(["wind", "höhe", "power"]))
        if rng.random() < 0.5:
            numbers[column] = numbers[column].astype(rng.choice(kinds))
        else:
            numbers[column] = numbers[column].astype(float)
            numbers.loc[rng.integers(60), column] = rng.choice([np.nan, np.inf, 1e200, -1e308, 5e-324])
        numbers.to_parquet(path)
    else:
        text = changed.to_csv(index=False).encode("utf-8", "surrogatepass")
        if path.suffix == ".gz":
            import gzip

            text = gzip.compress(text)
        path.write_bytes(text)


def _read(path: Path) -> str:
    from decond.tables import TableError, match_mediators, read_table

    try:
        table = read_table(path)
    except TableError:
        return ""
    for column in table.frame.columns:
        try:
            numbers = table.numbers([column]).to_numpy()
            if not np.isfinite(numbers).all():
                return f"reading {path.suffix} gives numbers that are not finite"
        except TableError:
            pass
        try:
            table.labels([column])
            table.is_numeric(column)
            match_mediators(table, table, [column])
        except TableError:
            pass
    return ""


def _streamed(path: Path) -> str:
    from decond.streaming import ParquetTable
    from decond.streaming.parquet import ParquetError

    try:
        total = ParquetTable(path, ["wind", "höhe"], "power").total(lambda chunk: chunk.targets.sum())
    except ParquetError:
        return ""
    return "" if np.isfinite(total) else "a sum over rows is not finite"
