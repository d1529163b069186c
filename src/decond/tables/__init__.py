r"""Tables in files: CSV, TSV and Parquet, columns by name, with errors that a scientist understands.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "hours.csv"
>>> _ = path.write_text("day,wind\nmonday,7.1\ntuesday,6.5\n")
>>> table = read_table(path)
>>> table.numbers(["wind"]).to_numpy()
array([[7.1],
       [6.5]])
>>> table.labels(["day"])["day"].tolist()
['monday', 'tuesday']
>>> table.numbers(["wnid"])
Traceback (most recent call last):
    ...
decond.tables.columns.TableError: hours.csv has no column 'wnid'; did you mean 'wind'? Its columns are day, wind.
"""

from decond.tables.columns import Table, TableError
from decond.tables.files import check_output, read_table, write_table
from decond.tables.mediators import Mediators, match_groups, match_mediators

__all__ = [
    "Mediators",
    "Table",
    "TableError",
    "check_output",
    "match_groups",
    "match_mediators",
    "read_table",
    "write_table",
]
