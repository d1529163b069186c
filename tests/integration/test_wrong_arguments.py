"""Wrong arguments of every command: exit code 2, nothing on stdout, one message that says what to do."""

import re

import pytest
import typer
from commands import decond, invoke, refusal

from decond.cli.console import wrong_input

COMMANDS = ("demo", "fit", "predict", "infer", "compare", "reproduce")
FIT = ("fit", "pairs.csv", "task.csv", "--x", "wind", "--y", "pressure", "--z", "power")
SPARSE = ("fit", "task.csv", "--x", "pressure", "--z", "power", "--sparse")
INFER = ("infer", "short_waits:simulate", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "60")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make everything that right arguments would name, in a folder where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "folder").mkdir()
    (tmp_path / "pairs.csv").write_text("wind,pressure\n1,2\n2,3\n3,4\n")
    (tmp_path / "task.csv").write_text("pressure,power\n1,2\n2,3\n3,5\n")
    (tmp_path / "prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    (tmp_path / "seen.csv").write_text("mean\n0.59\n")
    (tmp_path / "mine.png").write_bytes(b"a photograph")
    (tmp_path / "short_waits.py").write_text(
        "def simulate(theta, rng):\n    return [rng.exponential(1 / theta[0])]\n"
    )
    return tmp_path


def replaced(arguments, old, new):
    return tuple(new if argument == old else argument for argument in arguments)


WRONG = {
    # what was typed: the arguments, and what the message must name: arguments, options, files, choices
    "unknown command": (("dmeo",), ("'dmeo'", "demo?", "demo, fit, predict, infer, compare, reproduce")),
    "far from any command": (("xyzzy",), ("'xyzzy'.", "demo, fit, predict, infer, compare, reproduce")),
    "unknown option before the command": (("--verison",), ("--verison", "--version?")),
    "json before the command": (("--json", "demo"), ("--json",)),
    "argument of demo": (("demo", "now"), ("(now)", "Usage: decond demo")),
    "value of a flag": (("demo", "--json=yes"), ("'--json'",)),
    "value of a flag by its name of before": ((*INFER, "--diagnose=3"), ("'--diagnose'",)),
    "no value of an option": (("predict", "m", "t", "--output"), ("'--output'",)),
    "no tables": (("fit",), ("PAIRS [TASK]", ".csv")),
    "no x": (("fit", "pairs.csv", "task.csv"), ("--x",)),
    "no z": (FIT[:-2], ("--z",)),
    "no model": (("predict",), ("MODEL", "`decond fit`")),
    "no table to predict": (("predict", "m"), ("TABLE", ".csv")),
    "no simulator": (("infer",), ("SIMULATOR", "module:function")),
    "no prior": (("infer", "short_waits:simulate"), ("--prior", "TOML")),
    "no figure": (("reproduce",), ("FIGURE", "all, figure3, figure4, figure5")),
    "unknown figure": (("reproduce", "figure9"), ("FIGURE is 'figure9'", "all, figure3, figure4, figure5")),
    "negative seed": ((*FIT, "--seed", "-1"), ("--seed is '-1'",)),
    "seed in words": ((*FIT, "--seed", "one"), ("--seed is 'one'",)),
    "no inducing points": ((*SPARSE, "--inducing", "0"), ("--inducing is '0'",)),
    "no workers": ((*SPARSE, "--workers", "0"), ("--workers is '0'",)),
    "unknown error bars": ((*FIT, "--uncertainty", "wide"), ("--uncertainty is 'wide'", "honest, plain")),
    "no simulations": ((*INFER, "-n", "0"), ("--simulations is '0'",)),
    "no rounds": ((*INFER, "--rounds", "0"), ("--rounds is '0'",)),
    "no jobs": ((*INFER, "--jobs", "0"), ("--jobs is 0", "-1")),
    "negative time": ((*INFER, "--timeout", "-1"), ("--timeout is '-1'",)),
    "unknown method": ((*INFER, "--method", "abc"), ("--method is 'abc'", "auto, residual, dme")),
    "wrong x": (replaced(FIT, "wind", "wnid"), ("pairs.csv", "'wnid'", "'wind'")),
    "wrong y": (replaced(FIT, "pressure", "p"), ("pairs.csv", "'p'", "wind, pressure")),
    "wrong z": (replaced(FIT, "power", "powr"), ("task.csv", "'powr'", "'power'")),
    "missing table": (replaced(FIT, "pairs.csv", "pair.csv"), ("pair.csv", "pairs.csv")),
    "folder as a table": (replaced(FIT, "pairs.csv", "folder"), ("folder is a folder", ".csv")),
    "text as a table": (replaced(FIT, "pairs.csv", "short_waits.py"), ("'.py'", ".csv")),
    "model in a folder": ((*FIT, "-o", "folder"), ("--output folder/model.decond",)),
    "model nowhere": ((*FIT, "-o", "none/model"), (" none ",)),
    "report in a folder": ((*FIT, "--report", "folder"), ("--report folder/report.html",)),
    "report nowhere": ((*FIT, "--report", "none/page.html"), (" none ",)),
    "report as PDF": ((*FIT, "--report", "page.pdf"), ("--report", "page.pdf", "page.html")),
    "missing model": (("predict", "none.decond", "pairs.csv"), ("none.decond", "`decond fit`")),
    "folder as a model": (("predict", "folder", "pairs.csv"), ("folder is a folder", "`decond fit`")),
    "table as a model": (("predict", "task.csv", "pairs.csv"), ("task.csv",)),
    "missing table to predict": (("predict", "m", "none.csv"), ("none.csv", "pairs.csv")),
    "predictions into a folder": (("predict", "m", "pairs.csv", "-o", "folder"), ("folder is a folder", ".csv")),
    "predictions nowhere": (("predict", "m", "pairs.csv", "-o", "none/p.csv"), (" none ",)),
    "no function named": (
        replaced(INFER, "short_waits:simulate", "short_waits"),
        ("'short_waits'", "module:function"),
    ),
    "no such module": (replaced(INFER, "short_waits:simulate", "nowhere:f"), ("'nowhere'",)),
    "no such function": (replaced(INFER, "short_waits:simulate", "short_waits:f"), ("'f'", "simulate")),
    "missing prior": (replaced(INFER, "prior.toml", "none.toml"), ("none.toml", "[rate]")),
    "folder as a prior": (replaced(INFER, "prior.toml", "folder"), ("folder is a folder", "[rate]")),
    "table as a prior": (replaced(INFER, "prior.toml", "seen.csv"), ("seen.csv", "TOML", "[rate]")),
    "missing observation": (replaced(INFER, "seen.csv", "none.csv"), ("none.csv", "seen.csv")),
    "folder as an observation": (replaced(INFER, "seen.csv", "folder"), ("folder is a folder", ".csv")),
    "three observations": (replaced(INFER, "seen.csv", "task.csv"), ("task.csv has 3 rows",)),
    "draws into a folder": ((*INFER, "-o", "folder"), ("folder is a folder", ".csv")),
    "folder as a store": ((*INFER, "--store", "folder"), ("folder is a folder", ".sqlite")),
    "text as a store": ((*INFER, "--store", "prior.toml"), ("prior.toml",)),
    "model onto a table": ((*FIT, "-o", "task.csv"), ("task.csv",)),
    "picture onto a picture of the user": ((*FIT, "-o", "mine.decond"), ("mine.png", "--output")),
    "draws beside a picture of the user": ((*INFER, "-o", "mine.csv"), ("mine.png", "--output")),
    "draws onto the observation": ((*INFER, "-o", "seen.csv"), ("seen.csv",)),
    "draws onto it by another path": ((*INFER, "-o", "folder/../seen.csv"), ("seen.csv",)),
    "predictions onto the table": (("predict", "m", "pairs.csv", "-o", "pairs.csv"), ("pairs.csv",)),
    "demo into a file": (("demo", "-o", "task.csv"), ("task.csv", "--output")),
    "demo below a file": (("demo", "-o", "task.csv/x"), ("task.csv/x", "--output")),
    "figure into a file": (("reproduce", "all", "-o", "task.csv"), ("task.csv", "--output")),
}


def files_of(folder):
    """Return what is there, with the contents of files, so that nothing is lost and nothing is added."""
    found = [path for path in folder.iterdir() if path.name != "__pycache__"]
    return {path.name: path.read_bytes() if path.is_file() else None for path in found}


@pytest.mark.parametrize(("arguments", "names"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_and_nothing_is_written(arguments, names, folder):
    before = files_of(folder)
    message = refusal(*arguments)
    assert all(name in message for name in names), message
    assert files_of(folder) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_name_the_known_ones(command):
    message = refusal(command, "--outptu", "x")
    for name in ("--outptu", "--output?", "--json", f"decond {command} --help"):
        assert name in message


def test_no_command_shows_the_help_and_the_first_step():
    result = invoke()
    assert result.exit_code == 2
    for command in COMMANDS:
        assert command in result.stdout
    assert "decond demo" in result.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there_for_every_command(command, flag):
    result = invoke(command, flag)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "--output" in result.stdout
    assert not re.search(r"<\w+(\[\w+\])?>|\{|\}", result.stdout)


def test_the_help_of_all_commands_shows_no_types_of_python():
    for arguments in ([], ["--help"]):
        said = invoke(*arguments).stdout
        assert "--version" in said
        assert not re.search(r"<\w+(\[\w+\])?>|\{|\}", said)


def test_help_breaks_its_sentences_where_the_terminal_ends():
    """And not also where lines of the docstring end: of a paragraph only the last line is short."""
    lines = [line.strip() for line in decond("demo", "--help").splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("One table has"))
    paragraph = lines[begin : lines.index("", begin)]
    assert len(paragraph) > 2
    assert min(map(len, paragraph[:-1])) > 60


def test_usage_shows_arguments_as_they_are_typed():
    said = decond("fit", "--help")
    assert "Usage: decond fit [OPTIONS] PAIRS [TASK]" in said


@pytest.mark.parametrize("message", ["Unable to allocate 74.5 GiB", ""])
def test_memory_that_runs_out_is_answered_by_what_the_command_can_do(capsys, message):
    with pytest.raises(typer.Exit) as ended, wrong_input("Use fewer --inducing points."):
        raise MemoryError(message)
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.endswith("Use fewer --inducing points.\n")
