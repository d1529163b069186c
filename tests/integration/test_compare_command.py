"""`decond compare`: problems by name and in TOML files; one table, one picture; wrong files refused before a run."""

import io
import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import raised, refused
from rich.console import Console

from decond.cli.compare import comparison_tables
from decond.cli.problem_file import BUILT_IN, read_task
from decond.lfi.compare_methods import methods_by_label
from decond.plotting.figures import is_drawn_here
from decond.tables import TableError

SIMULATOR = """
ran = []

def simulate(theta, rng):
    ran.append(theta)
    waits = rng.exponential(1 / theta[0], 15)
    return [waits.mean(), waits.std()]

def whole(theta, rng):
    return rng.exponential(1 / theta[0], 15)

def mean(waits):
    return [waits.mean()]

def counts(theta, rng):
    return rng.poisson(theta[0], (4, 2))

def column_means(counts):
    return counts.mean(axis=0)

def several(theta, rng):
    return theta + rng.standard_normal(len(theta))

def stopped(theta, rng):
    raise KeyboardInterrupt
"""

WAITS = """
[problem]
simulator = "short_rests:simulate"
observed = [0.59, 0.6]
simulations = 40
methods = ["rejection", "smc"]

[prior.rate]
distribution = "gamma"
a = 2.0
"""

TABLES = """
[problem]
pairs = "hours.csv"
task = "days.csv"
x = ["wind"]
mediator = ["day"]
labels = true
target = "power"
methods = ["ridge"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make problems of both kinds in a folder where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    (tmp_path / "short_rests.py").write_text(SIMULATOR)
    (tmp_path / "waits.toml").write_text(WAITS)
    (tmp_path / "tables.toml").write_text(TABLES)
    (tmp_path / "prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    (tmp_path / "seen.csv").write_text("mean,std\n0.59,0.6\n")
    (tmp_path / "empty.csv").write_text("day,wind,power\n")
    (tmp_path / "named.csv").write_text("day,power\nmonday,1\ntuesday,2\n")
    (tmp_path / "mixed.csv").write_text("day,power\n0,1\n1x,2\n")
    rng = np.random.default_rng(0)
    wind, day = rng.uniform(0, 10, 60), np.repeat(np.arange(20), 3)
    hours = pd.DataFrame({"day": day, "wind": wind})
    hours.to_csv(tmp_path / "hours.csv", index=False)
    hours.groupby("day", as_index=False)["wind"].mean().rename(columns={"wind": "power"}).to_csv(
        "days.csv", index=False
    )
    pd.DataFrame({"wind": [2.0, 5.0, 8.0], "power": [2.0, 5.0, 8.0]}).to_csv("truth.csv", index=False)
    return tmp_path


def compare(*arguments):
    return json.loads(decond("compare", *arguments, "--json"))


def test_a_simulator_in_a_file(folder):
    printed = decond("compare", "waits.toml")
    assert all(name in printed for name in ("rejection", "smc", "compare.csv", "compare.json", "compare.png"))
    written = folder / "decond-compare"
    assert sorted(path.name for path in written.iterdir()) == ["compare.csv", "compare.json", "compare.png"]
    assert is_drawn_here(written / "compare.png")
    table = pd.read_csv(written / "compare.csv", index_col="method")
    assert set(table.index) == {"rejection", "smc"}
    assert 0.0 <= table.loc["rejection", "held out inside 95 %"] <= 1.0
    assert (table["simulations"] == 40).all()
    again = compare("waits.toml", "--methods", "rejection")  # its own files may be written again
    assert any("40" in note for note in again["notes"])  # simulations that each method had at most


def test_options_of_the_command_line_come_first(folder):
    found = compare("waits.toml", "--methods", "smc", "-n", 30, "--seeds", 2)
    assert list(found["methods"]) == ["smc"]
    assert found["methods"]["smc"]["simulations"] == 30
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    assert found["problem"] == "waits"


def test_files_and_truth_beside_the_problem(folder):
    (folder / "deep").mkdir()
    for name in ("prior.toml", "seen.csv"):
        (folder / name).rename(folder / "deep" / name)
    exact = np.random.default_rng(0).gamma(17, 1 / 9.89, 500)
    pd.DataFrame({"rate": exact}).to_csv(folder / "deep" / "draws.csv", index=False)
    (folder / "deep" / "waits.toml").write_text(
        '[problem]\nsimulator = "short_rests:simulate"\nprior = "prior.toml"\nobserved = "seen.csv"\n'
        'methods = ["rejection"]\nsimulations = 40\nreference = "draws.csv"\ntruth = {rate = 2.0}\n'
    )
    found = compare("deep/waits.toml")
    row = found["methods"]["rejection"]
    assert 0.0 < row["total variation"] < 0.8
    assert row["truth inside 95 %"] in (0, 1)
    assert found["measure"] == "total variation"


def test_raw_data_sets_in_a_file(folder):
    (folder / "raw.toml").write_text(
        '[problem]\nsimulator = "short_rests:whole"\nsummarize = "short_rests:mean"\nsimulations = 40\n'
        f"observed = {[0.5] * 15}\n"
        'methods = ["k2abc"]\nprior = "prior.toml"\n'
    )
    assert compare("raw.toml")["methods"]["k2abc"]["simulations"] == 40


RAW = """
[problem]
simulator = "short_rests:{simulator}"
summarize = "short_rests:{summarize}"
observed = {observed}
simulations = 40
methods = ["rejection"]
prior = "prior.toml"
"""
COUNTS = [[1, 1], [2, 1], [3, 0], [1, 1]]


@pytest.mark.parametrize("header", [True, False])
def test_raw_data_in_rows_and_columns_of_a_file(folder, header):
    pd.DataFrame(COUNTS, columns=["left", "right"]).to_csv("raw.csv", index=False, header=header)
    (folder / "raw.toml").write_text(RAW.format(simulator="counts", summarize="column_means", observed='"raw.csv"'))
    assert read_task("raw.toml").arguments["observed"].tolist() == COUNTS
    assert any("raw.csv" in note for note in read_task("raw.toml").notes) == (not header)


@pytest.mark.parametrize("content", ["wait\n0.5\n0.25\n", "0.5\n0.25\n", "0.5,0.25\n", "first,second\n0.5,0.25\n"])
def test_one_row_or_column_of_raw_data_is_a_list(folder, content):
    (folder / "raw.csv").write_text(content)
    (folder / "raw.toml").write_text(RAW.format(simulator="whole", summarize="mean", observed='"raw.csv"'))
    assert read_task("raw.toml").arguments["observed"].tolist() == [0.5, 0.25]


def test_raw_data_in_nested_lists(folder):
    (folder / "raw.toml").write_text(RAW.format(simulator="counts", summarize="column_means", observed=COUNTS))
    assert compare("raw.toml")["methods"]["rejection"]["simulations"] == 40


SIX = """
[problem]
simulator = "short_rests:several"
observed = [0, 0, 0, 0, 0, 0]
simulations = 60
methods = ["rejection", "smc"]
"""


@pytest.mark.filterwarnings("ignore::UserWarning")  # of so few simulations
def test_nothing_is_cut_where_the_terminal_is_narrow(folder):
    priors = "".join(f'[prior.speed{j}]\ndistribution = "norm"\n' for j in range(6))
    (folder / "six.toml").write_text(SIX + priors)
    found = read_task("six.toml").run()
    for columns in (80, 20):
        terminal = Console(width=columns, file=io.StringIO(), color_system=None)
        for table in comparison_tables("six", found, columns):
            terminal.print(table, crop=False)
        shown = terminal.file.getvalue()
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= max(columns, 30)  # a method beside a verdict has no room in 20
        for method in ("rejection", "smc"):
            for number in found.frame.loc[method, [f"speed{j} width" for j in range(6)]]:
                assert f" {number:.3g} " in shown
            assert f"│ {method} " in shown
        assert all(f"speed{j}" in shown for j in range(6))
    assert len(comparison_tables("six", found, 1000)) == 1


def test_two_tables_in_a_file(folder):
    found = compare("tables.toml")
    assert found["measure"] == "held-out RMSE"
    assert found["methods"]["ridge"]["held-out RMSE"] < 1.5
    (folder / "known.toml").write_text(f'{TABLES}truth = "truth.csv"\n')
    found = compare("known.toml")
    assert 0.0 < found["methods"]["ridge"]["RMSE"] < 3.0


def test_problems_that_come_with_decond(folder):
    assert compare("exponential_gamma", "--methods", "rejection,k2abc", "-n", 40)["measure"] == "total variation"
    (folder / "named.toml").write_text('problem = "latent_function"\nmethods = ["ridge"]\n')
    assert compare("named.toml")["methods"]["ridge"]["RMSE"] < 2.0
    for name in BUILT_IN:
        task = read_task(name)
        assert task.tables == (name in ("latent_function", "wind"))
        assert "z_task" in task.arguments or task.arguments["simulator"].prior is not None


def changed(text, old, new):
    assert old in text
    return text.replace(old, new)


WRONG_COMMANDS = {
    # arguments, and what the message names
    "no problem": ((), ("PROBLEM", "exponential_gamma")),
    "unknown problem": (("exponential_gama",), ("'exponential_gama'", "exponential_gamma?")),
    "missing file": (("wait.toml",), ("'wait.toml'", "waits.toml?")),
    "folder as a problem": ((".",), (". is a folder", "[problem]")),
    "no TOML": (("seen.csv",), ("seen.csv", "TOML", "[prior.rate]")),
    "unknown method": (("waits.toml", "--methods", "rejction"), ("'rejction'", "'rejection'")),
    "unknown model": (("tables.toml", "--methods", "rigde"), ("'rigde'", "'ridge'")),
    "no seeds": (("waits.toml", "--seeds", "0"), ("--seeds is '0'",)),
    "few simulations": (("waits.toml", "-n", "5"), ("n_simulations is 5", "13")),
    "simulations of tables": (("tables.toml", "-n", "50"), ("--simulations",)),
    "output is a file": (("waits.toml", "-o", "seen.csv"), ("seen.csv", "--output")),
}


@pytest.mark.parametrize(("arguments", "names"), WRONG_COMMANDS.values(), ids=WRONG_COMMANDS.keys())
def test_wrong_commands_are_refused(folder, arguments, names):
    said = refusal("compare", *arguments)
    assert all(name in said for name in names), said
    assert not (folder / "decond-compare").exists()


WRONG_SETTINGS = {
    # the content of a file, and what in it is at fault
    "unknown key": (changed(WAITS, "simulations", "simulation"), "simulation"),
    "wrong kind": (changed(WAITS, "40", '"many"'), "simulations"),
    "methods in one text": (changed(WAITS, '["rejection", "smc"]', '"smc"'), "methods"),
    "key outside": (f"batched = true\n{WAITS}", "batched"),
    "truth as yes or no": (changed(WAITS, "methods", "truth = {rate = true}\nmethods"), "truth"),
    "yes or no as observation": (changed(WAITS, "[0.59, 0.6]", "[true, false]"), "observed"),
    "no parameter": (f"{WAITS[: WAITS.index('[prior')]}[prior]\n", "prior"),
    "parameter without a table": (f"{WAITS[: WAITS.index('[prior')]}[prior]\nrate = 3\n", "prior.rate"),
    "pairs without task": (changed(TABLES, 'task = "days.csv"\n', ""), "task"),
    "folds of a simulator": ('problem = "sir"\nfolds = 3\n', "folds"),
    "rounds of tables": ('problem = "wind"\nrounds = 3\n', "rounds"),
    "no table": ("simulations = 3\n", "problem"),
    "no observation": (changed(WAITS, "observed = [0.59, 0.6]\n", ""), "observed"),
    "no prior": (WAITS[: WAITS.index("[prior")], "prior"),
    "two priors": (changed(WAITS, "methods", 'prior = "prior.toml"\nmethods'), "prior"),
    "unknown module": (changed(WAITS, "short_rests:", "long_rests:"), "simulator"),
    "unknown function": (changed(WAITS, ":simulate", ":simulat"), "simulator"),
    "truth of another parameter": (changed(WAITS, "methods", "truth = {speed = 2.0}\nmethods"), "truth"),
    "nested lists without summarize": (changed(WAITS, "[0.59, 0.6]", "[[0.59], [0.6]]"), "observed"),
    "rows of raw data of different lengths": (
        RAW.format(simulator="counts", summarize="column_means", observed=[[1, 2], [3]]),
        "observed",
    ),
    "a number for raw data": (RAW.format(simulator="counts", summarize="column_means", observed=3), "observed"),
    "unknown function of summaries": (
        RAW.format(simulator="counts", summarize="row_means", observed=COUNTS),
        "summarize",
    ),
    "unknown problem in a file": ('problem = "wnid"\n', "problem"),
}


@pytest.mark.parametrize(("content", "argument"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS.keys())
def test_wrong_settings_are_refused(folder, content, argument):
    (folder / "wrong.toml").write_text(content)
    with refused(argument) as caught:
        read_task("wrong.toml")
    assert refusal("compare", "wrong.toml") == f"{caught.value}\n"
    assert not (folder / "decond-compare").exists()


WRONG_FILES = {
    # the content of a file, and what its tables lack
    "missing observation": (changed(WAITS, "[0.59, 0.6]", '"no.csv"'), {"table": "no.csv"}),
    "unknown column": (changed(TABLES, '"wind"', '"wnid"'), {"table": "hours.csv", "column": "wnid"}),
    "swapped tables": (
        changed(changed(TABLES, "hours", "HOURS").replace("days", "hours"), "HOURS", "days"),
        {"table": "days.csv", "column": "wind"},
    ),
    "missing table": (changed(TABLES, "days.csv", "dayz.csv"), {"table": "dayz.csv"}),
    "truth without the target": (f'{TABLES}truth = "hours.csv"\n', {"table": "hours.csv", "column": "power"}),
    "no raw data": (
        RAW.format(simulator="counts", summarize="column_means", observed='"empty.csv"'),
        {"table": "empty.csv", "count": 0},
    ),
    "no pairs": (changed(TABLES, "hours.csv", "empty.csv"), {"table": "empty.csv", "count": 0}),
    "no truth": (f'{TABLES}truth = "empty.csv"\n', {"table": "empty.csv", "count": 0}),
    "labels in one table": (
        changed(changed(TABLES, "labels = true\n", ""), "days.csv", "named.csv"),
        {"table": "named.csv", "column": "day"},
    ),
    "labels among numbers": (
        changed(changed(TABLES, "labels = true\n", ""), "days.csv", "mixed.csv"),
        {"table": "mixed.csv", "column": "day", "line": 3, "value": "1x"},
    ),
}


@pytest.mark.parametrize(("content", "fault"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_wrong_tables_are_refused(folder, content, fault):
    (folder / "wrong.toml").write_text(content)
    with raised(TableError, **fault) as caught:
        read_task("wrong.toml")
    assert ("labels = true in wrong.toml" in str(caught.value)) == (fault.get("column") == "day")  # the remedy
    assert refusal("compare", "wrong.toml") == f"{caught.value}\n"
    assert not (folder / "decond-compare").exists()


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (WAITS[: WAITS.index("[prior")] + 'prior = "no.toml"\n', ["no.toml"]),
        (changed(WAITS, '"gamma"', '"gama"'), ["'gama'", "'gamma'"]),
        (changed(WAITS, ", 0.6]", "]"), ["observed"]),
    ],
)
def test_a_prior_or_an_observation_that_does_not_fit_is_refused(folder, content, names):
    (folder / "wrong.toml").write_text(content)
    said = refusal("compare", "wrong.toml")
    assert all(name in said for name in names), said
    assert not (folder / "decond-compare").exists()


def test_letters_of_a_problem_and_of_its_tables_may_be_written_in_several_ways(folder):
    """A byte-order mark says nothing; ö may be one sign or two."""
    pd.read_csv("hours.csv").rename(columns={"wind": "Böe"}).to_csv("hours.csv", index=False)
    problem = TABLES.replace('"wind"', f'"{unicodedata.normalize("NFD", "Böe")}"')
    (folder / "tables.toml").write_text(problem, encoding="utf-8-sig")
    assert list(read_task("tables.toml").arguments["x"]) == ["Böe"]


def test_all_methods_by_name(folder):
    (folder / "all.toml").write_text(changed(WAITS, '["rejection", "smc"]', '"all"'))
    assert read_task("all.toml").arguments["methods"] == "all"
    task = read_task("waits.toml").with_options(["all"], None, None)
    assert set(methods_by_label(task.arguments["methods"])) > {"dme", "smc"}


def test_a_comparison_that_is_stopped_writes_nothing(folder):
    (folder / "stopped.toml").write_text(changed(WAITS, ":simulate", ":stopped"))
    result = invoke("compare", "stopped.toml", "-o", "new/folder")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.count("\n") == 1
    assert not (folder / "new").exists()


def test_nothing_of_the_user_is_written_onto(folder):
    (folder / "compare.csv").write_text("mean,std\n0.59,0.6\n")
    (folder / "own.toml").write_text(changed(WAITS, "[0.59, 0.6]", '"compare.csv"'))
    assert "compare.csv" in refusal("compare", "own.toml", "-o", ".")
    assert (folder / "compare.csv").read_text() == "mean,std\n0.59,0.6\n"
