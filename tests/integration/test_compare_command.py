"""`decond compare`: problems by name and in TOML files; one table, one picture; wrong files refused before a run."""

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from decond.cli import app
from decond.cli.console import console
from decond.cli.problem_file import BUILT_IN, Task, read_task
from decond.lfi.compared import chosen_methods
from decond.plotting.figures import is_drawn_here

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


def compare(*arguments, code=0):
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)], prog_name="decond")
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_a_simulator_in_a_file(folder):
    result = compare("waits.toml")
    assert "rejection" in result.stdout
    assert "Each method had 40 simulations at most." in result.stdout
    written = folder / "decond-compare"
    assert sorted(path.name for path in written.iterdir()) == ["compare.csv", "compare.json", "compare.png"]
    assert is_drawn_here(written / "compare.png")
    table = pd.read_csv(written / "compare.csv", index_col="method")
    assert set(table.index) == {"rejection", "smc"}
    assert 0.0 <= table.loc["rejection", "held out inside 95 %"] <= 1.0
    assert (table["simulations"] == 40).all()
    compare("waits.toml", "--methods", "rejection")  # its own files may be written again


def test_options_of_the_command_line_come_first(folder):
    found = json.loads(compare("waits.toml", "--methods", "smc", "-n", 30, "--seeds", 2, "--json").stdout)
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
    found = json.loads(compare("deep/waits.toml", "--json").stdout)
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
    assert json.loads(compare("raw.toml", "--json").stdout)["methods"]["k2abc"]["simulations"] == 40


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
    assert ("raw.csv has no header" in compare("raw.toml").stdout) == (not header)


@pytest.mark.parametrize("content", ["wait\n0.5\n0.25\n", "0.5\n0.25\n", "0.5,0.25\n", "first,second\n0.5,0.25\n"])
def test_one_row_or_column_of_raw_data_is_a_list(folder, content):
    (folder / "raw.csv").write_text(content)
    (folder / "raw.toml").write_text(RAW.format(simulator="whole", summarize="mean", observed='"raw.csv"'))
    assert read_task("raw.toml").arguments["observed"].tolist() == [0.5, 0.25]


def test_raw_data_in_nested_lists(folder):
    (folder / "raw.toml").write_text(RAW.format(simulator="counts", summarize="column_means", observed=COUNTS))
    assert json.loads(compare("raw.toml", "--json").stdout)["methods"]["rejection"]["simulations"] == 40


SIX = """
[problem]
simulator = "short_rests:several"
observed = [0, 0, 0, 0, 0, 0]
simulations = 60
methods = ["rejection", "smc"]
"""


@pytest.mark.parametrize("columns", [80, 20])
def test_nothing_is_cut_where_the_terminal_is_narrow(folder, monkeypatch, columns):
    priors = "".join(f'[prior.speed{j}]\ndistribution = "norm"\n' for j in range(6))
    (folder / "six.toml").write_text(SIX + priors)
    monkeypatch.setattr(console, "_width", columns)  # it keeps the COLUMNS of when it was made
    shown = compare("six.toml").stdout
    tables = shown[: shown.rindex("┘")]
    assert "…" not in tables
    assert max(map(len, tables.splitlines())) <= max(columns, 30)  # a method beside a verdict has no room in 20
    found = pd.read_csv("decond-compare/compare.csv", index_col="method")
    for method in ("rejection", "smc"):
        for number in found.loc[method, [f"speed{j} width" for j in range(6)]]:
            assert f" {number:.3g} " in tables
        assert f"│ {method} " in tables
    assert all(f"speed{j}" in tables for j in range(6))


def test_a_wide_terminal_gets_one_table(folder, monkeypatch):
    monkeypatch.setattr(console, "_width", 150)
    assert compare("waits.toml").stdout.count("┏") == 1


def test_two_tables_in_a_file(folder):
    found = json.loads(compare("tables.toml", "--json").stdout)
    assert found["measure"] == "held-out RMSE"
    assert found["methods"]["ridge"]["held-out RMSE"] < 1.5
    (folder / "known.toml").write_text(f'{TABLES}truth = "truth.csv"\n')
    found = json.loads(compare("known.toml", "--json").stdout)
    assert 0.0 < found["methods"]["ridge"]["RMSE"] < 3.0


def test_problems_that_come_with_decond(folder):
    result = compare("exponential_gamma", "--methods", "rejection,k2abc", "-n", 40)
    assert "total variation" in result.stdout
    (folder / "named.toml").write_text('problem = "latent_function"\nmethods = ["ridge"]\n')
    assert json.loads(compare("named.toml", "--json").stdout)["methods"]["ridge"]["RMSE"] < 2.0
    for name in BUILT_IN:
        task = read_task(name)
        assert task.tables == (name in ("latent_function", "wind"))
        assert "z_task" in task.arguments or task.arguments["simulator"].prior is not None


def changed(text, old, new):
    assert old in text
    return text.replace(old, new)


WRONG = {
    # what is wrong: the content of the file, or arguments, and what the message must say
    "no problem": ((), ("decond compare needs PROBLEM", "exponential_gamma")),
    "unknown problem": (("exponential_gama",), ("no problem or file 'exponential_gama'", "exponential_gamma?")),
    "missing file": (("wait.toml",), ("no problem or file 'wait.toml'", "did you mean waits.toml?")),
    "folder as a problem": ((".",), (". is a folder", "[problem]")),
    "no TOML": (("seen.csv",), ("seen.csv is not valid TOML", "[prior.rate]")),
    "unknown method": (("waits.toml", "--methods", "rejction"), ("'rejction'", "did you mean 'rejection'?")),
    "unknown model": (("tables.toml", "--methods", "rigde"), ("'rigde'", "did you mean 'ridge'?")),
    "no seeds": (("waits.toml", "--seeds", "0"), ("--seeds is '0'",)),
    "few simulations": (("waits.toml", "-n", "5"), ("n_simulations is 5", "at least 13")),
    "simulations of tables": (("tables.toml", "-n", "50"), ("--simulations has no meaning for two tables",)),
    "output is a file": (("waits.toml", "-o", "seen.csv"), ("seen.csv is a file", "Give a folder")),
    "unknown key": (changed(WAITS, "simulations", "simulation"), ("'simulation'; did you mean 'simulations'?",)),
    "wrong kind": (changed(WAITS, "40", '"many"'), ("simulations is 'many'; give a whole number",)),
    "methods in one text": (changed(WAITS, '["rejection", "smc"]', '"smc"'), ("methods is 'smc'; give a list",)),
    "key outside": (f"batched = true\n{WAITS}", ("'batched' outside of [problem]",)),
    "truth as yes or no": (
        changed(WAITS, "methods", "truth = {rate = true}\nmethods"),
        ("truth is {'rate': True}", "a table of numbers"),
    ),
    "yes or no as observation": (changed(WAITS, "[0.59, 0.6]", "[true, false]"), ("observed is [True, False]",)),
    "no parameter": (f"{WAITS[: WAITS.index('[prior')]}[prior]\n", ("has no prior", "[prior.rate]")),
    "parameter without a table": (
        f"{WAITS[: WAITS.index('[prior')]}[prior]\nrate = 3\n",
        ("'rate' in [prior] is no table", "[prior.rate] distribution"),
    ),
    "pairs without task": (changed(TABLES, 'task = "days.csv"\n', ""), ("lacks 'task'", 'task = "days.csv"')),
    "folds of a simulator": ('problem = "sir"\nfolds = 3\n', ("unknown key 'folds'", "simulations")),
    "rounds of tables": ('problem = "wind"\nrounds = 3\n', ("unknown key 'rounds'", "folds")),
    "no table": ("simulations = 3\n", ("no table [problem]", "simulator =")),
    "no observation": (changed(WAITS, "observed = [0.59, 0.6]\n", ""), ("lacks 'observed'",)),
    "no prior": (WAITS[: WAITS.index("[prior")], ("has no prior", "[prior.rate]")),
    "two priors": (changed(WAITS, "methods", 'prior = "prior.toml"\nmethods'), ("a prior as a file and as tables",)),
    "missing prior": (WAITS[: WAITS.index("[prior")] + 'prior = "no.toml"\n', ("there is no file", "no.toml")),
    "unknown distribution": (changed(WAITS, '"gamma"', '"gama"'), ("'gama'", "did you mean 'gamma'?")),
    "unknown module": (changed(WAITS, "short_rests:", "long_rests:"), ("no module 'long_rests'",)),
    "unknown function": (changed(WAITS, ":simulate", ":simulat"), ("no function 'simulat'", "simulate")),
    "missing observation": (changed(WAITS, "[0.59, 0.6]", '"no.csv"'), ("there is no file", "no.csv")),
    "observation of another kind": (changed(WAITS, ", 0.6]", "]"), ("observed has 1 value",)),
    "truth of another parameter": (
        changed(WAITS, "methods", "truth = {speed = 2.0}\nmethods"),
        ("truth is of speed", "called rate"),
    ),
    "unknown column": (changed(TABLES, '"wind"', '"wnid"'), ("no column 'wnid'", "did you mean 'wind'?")),
    "swapped tables": (
        changed(changed(TABLES, "hours", "HOURS").replace("days", "hours"), "HOURS", "days"),
        ("no column 'wind'", "swapped"),
    ),
    "missing table": (changed(TABLES, "days.csv", "dayz.csv"), ("there is no file", "dayz.csv")),
    "truth without the target": (
        f'{TABLES}truth = "hours.csv"\n',
        ("hours.csv has no column 'power'", "columns of x"),
    ),
    "nested lists without summarize": (
        changed(WAITS, "[0.59, 0.6]", "[[0.59], [0.6]]"),
        ("observed is [[0.59], [0.6]]", "need summarize"),
    ),
    "rows of raw data of different lengths": (
        RAW.format(simulator="counts", summarize="column_means", observed=[[1, 2], [3]]),
        ("observed is [[1, 2], [3]]", "rows of the same length"),
    ),
    "no raw data": (
        RAW.format(simulator="counts", summarize="column_means", observed='"empty.csv"'),
        ("empty.csv has no rows",),
    ),
    "no pairs": (changed(TABLES, "hours.csv", "empty.csv"), ("empty.csv has no rows",)),
    "no truth": (f'{TABLES}truth = "empty.csv"\n', ("empty.csv has no rows",)),
    "labels in one table": (
        changed(changed(TABLES, "labels = true\n", ""), "days.csv", "named.csv"),
        ("text in named.csv", "say labels = true in wrong.toml if the numbers are names"),
    ),
    "labels among numbers": (
        changed(changed(TABLES, "labels = true\n", ""), "days.csv", "mixed.csv"),
        ("line 3 has '1x'", "say labels = true in wrong.toml."),
    ),
    "unknown problem in a file": ('problem = "wnid"\n', ("there is no problem 'wnid'; did you mean 'wind'?",)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused(folder, case):
    given, words = WRONG[case]
    if isinstance(given, str):
        (folder / "wrong.toml").write_text(given)
        given = ("wrong.toml",)
    result = compare(*given, code=2)
    said = " ".join(result.stderr.split())
    assert result.stdout == ""
    assert said.startswith("Error: ")
    for word in words:
        assert word in said
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
    assert set(chosen_methods(task.arguments["methods"])) > {"dme", "smc"}


def test_a_comparison_that_is_stopped_says_so(folder, monkeypatch):
    def stopped(task):
        raise KeyboardInterrupt

    monkeypatch.setattr(Task, "run", stopped)
    result = compare("waits.toml", "-o", "new/folder", code=130)
    assert result.stderr.strip() == "Stopped; nothing was written."
    assert not (folder / "new").exists()


def test_nothing_of_the_user_is_written_onto(folder):
    (folder / "decond-compare").mkdir()
    (folder / "decond-compare" / "compare.csv").write_text("mine")
    said = " ".join(compare("waits.toml", code=2).stderr.split())
    assert "compare.csv is there already" in said
    assert (folder / "decond-compare" / "compare.csv").read_text() == "mine"
    (folder / "decond-compare" / "compare.csv").unlink()
    compare("waits.toml", "--methods", "rejection")
    (folder / "decond-compare" / "compare.csv").write_text("mine")  # beside files of ours
    assert "compare.csv is there already" in " ".join(compare("waits.toml", code=2).stderr.split())
    (folder / "compare.csv").write_text("mean,std\n0.59,0.6\n")
    (folder / "own.toml").write_text(changed(WAITS, "[0.59, 0.6]", '"compare.csv"'))
    assert "is read by this command" in " ".join(compare("own.toml", "-o", ".", code=2).stderr.split())
