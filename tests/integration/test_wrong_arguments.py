"""Wrong arguments of every command: exit code 2, nothing on stdout, one message that says what to do."""

import re

import pytest
from typer.testing import CliRunner

from decond.cli import app
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
    # what was typed: the arguments, and what the message must say
    "unknown command": (("dmeo",), ("'dmeo'", "did you mean demo?", "demo, fit, predict, infer, compare, reproduce")),
    "far from any command": (("xyzzy",), ("'xyzzy'.", "The commands are demo")),
    "unknown option before the command": (("--verison",), ("--verison", "did you mean --version?")),
    "json before the command": (("--json", "demo"), ("--json goes after the command",)),
    "argument of demo": (("demo", "now"), ("extra argument", "(now)", "Usage: decond demo")),
    "value of a flag": (("demo", "--json=yes"), ("'--json' does not take a value",)),
    "value of a flag by its name of before": ((*INFER, "--diagnose=3"), ("'--diagnose' does not take a value",)),
    "no value of an option": (("predict", "m", "t", "--output"), ("'--output' requires an argument",)),
    "no tables": (("fit",), ("decond fit needs PAIRS [TASK]", ".csv")),
    "no x": (("fit", "pairs.csv", "task.csv"), ("decond fit needs --x", "Column of x")),
    "no z": (FIT[:-2], ("decond fit needs --z", "target")),
    "no model": (("predict",), ("decond predict needs MODEL", "`decond fit`")),
    "no table to predict": (("predict", "m"), ("decond predict needs TABLE", "columns of x")),
    "no simulator": (("infer",), ("decond infer needs SIMULATOR", "module:function")),
    "no prior": (("infer", "short_waits:simulate"), ("decond infer needs --prior", "TOML")),
    "no figure": (("reproduce",), ("decond reproduce needs FIGURE", "all, figure3, figure4, figure5")),
    "unknown figure": (("reproduce", "figure9"), ("FIGURE is 'figure9'", "all, figure3, figure4, figure5")),
    "negative seed": ((*FIT, "--seed", "-1"), ("--seed is '-1'", "greater than or equal to 0")),
    "seed in words": ((*FIT, "--seed", "one"), ("--seed is 'one'", "integer")),
    "no inducing points": ((*SPARSE, "--inducing", "0"), ("--inducing is '0'", "1")),
    "no workers": ((*SPARSE, "--workers", "0"), ("--workers is '0'", "1")),
    "unknown error bars": ((*FIT, "--uncertainty", "wide"), ("--uncertainty is 'wide'", "honest, plain")),
    "no simulations": ((*INFER, "-n", "0"), ("--simulations is '0'", "1")),
    "no rounds": ((*INFER, "--rounds", "0"), ("--rounds is '0'", "1")),
    "no jobs": ((*INFER, "--jobs", "0"), ("--jobs is 0", "-1 for all cores")),
    "negative time": ((*INFER, "--timeout", "-1"), ("--timeout is '-1'", "greater than")),
    "unknown method": ((*INFER, "--method", "abc"), ("--method is 'abc'", "auto, residual, dme")),
    "wrong x": (replaced(FIT, "wind", "wnid"), ("pairs.csv has no column 'wnid'", "did you mean 'wind'?")),
    "wrong y": (replaced(FIT, "pressure", "p"), ("pairs.csv has no column 'p'", "wind, pressure")),
    "wrong z": (replaced(FIT, "power", "powr"), ("task.csv has no column 'powr'", "did you mean 'power'?")),
    "missing table": (replaced(FIT, "pairs.csv", "pair.csv"), ("there is no file pair.csv", "pairs.csv")),
    "folder as a table": (replaced(FIT, "pairs.csv", "folder"), ("folder is a folder", ".csv")),
    "text as a table": (replaced(FIT, "pairs.csv", "short_waits.py"), ("ends in '.py'", ".csv")),
    "model in a folder": ((*FIT, "-o", "folder"), ("folder is a folder", "--output folder/model.decond")),
    "model nowhere": ((*FIT, "-o", "none/model"), ("folder none does not exist", "Make it first")),
    "report in a folder": ((*FIT, "--report", "folder"), ("folder is a folder", "--report folder/report.html")),
    "report as PDF": ((*FIT, "--report", "page.pdf"), ("page.pdf", "page.html")),
    "missing model": (("predict", "none.decond", "pairs.csv"), ("there is no file none.decond", "`decond fit`")),
    "folder as a model": (("predict", "folder", "pairs.csv"), ("folder is a folder", "`decond fit`")),
    "table as a model": (("predict", "task.csv", "pairs.csv"), ("task.csv is not a decond model", "fit the model")),
    "missing table to predict": (("predict", "m", "none.csv"), ("there is no file none.csv", "pairs.csv")),
    "predictions into a folder": (("predict", "m", "pairs.csv", "-o", "folder"), ("folder is a folder", ".csv")),
    "predictions nowhere": (("predict", "m", "pairs.csv", "-o", "none/p.csv"), ("folder none does not exist",)),
    "no function named": (
        replaced(INFER, "short_waits:simulate", "short_waits"),
        ("'short_waits'", "module:function"),
    ),
    "no such module": (replaced(INFER, "short_waits:simulate", "nowhere:f"), ("no module 'nowhere'", "this folder")),
    "no such function": (replaced(INFER, "short_waits:simulate", "short_waits:f"), ("no function 'f'", "simulate")),
    "missing prior": (replaced(INFER, "prior.toml", "none.toml"), ("there is no file none.toml", "[rate]")),
    "folder as a prior": (replaced(INFER, "prior.toml", "folder"), ("folder is a folder", "[rate]")),
    "table as a prior": (replaced(INFER, "prior.toml", "seen.csv"), ("seen.csv is not valid TOML", "[rate]")),
    "missing observation": (replaced(INFER, "seen.csv", "none.csv"), ("there is no file none.csv", "seen.csv")),
    "folder as an observation": (replaced(INFER, "seen.csv", "folder"), ("folder is a folder", ".csv")),
    "three observations": (replaced(INFER, "seen.csv", "task.csv"), ("task.csv has 3 rows", "one row")),
    "draws into a folder": ((*INFER, "-o", "folder"), ("folder is a folder", ".csv")),
    "folder as a store": ((*INFER, "--store", "folder"), ("folder is a folder", "runs.sqlite")),
    "text as a store": ((*INFER, "--store", "prior.toml"), ("prior.toml is not a simulation store", "another name")),
    "model onto a table": ((*FIT, "-o", "task.csv"), ("task.csv is read by this command", "another name")),
    "picture onto a picture of the user": (
        (*FIT, "-o", "mine.decond"),
        ("mine.png", "not drawn by decond", "--output"),
    ),
    "draws beside a picture of the user": (
        (*INFER, "-o", "mine.csv"),
        ("mine.png", "not drawn by decond", "--output"),
    ),
    "draws onto the observation": ((*INFER, "-o", "seen.csv"), ("seen.csv is read by this command", "another name")),
    "draws onto it by another path": ((*INFER, "-o", "folder/../seen.csv"), ("seen.csv is read by this command",)),
    "predictions onto the table": (
        ("predict", "m", "pairs.csv", "-o", "pairs.csv"),
        ("pairs.csv is read by this command", "another name"),
    ),
    "demo into a file": (("demo", "-o", "task.csv"), ("task.csv is a file", "Give a folder")),
    "demo below a file": (("demo", "-o", "task.csv/x"), ("cannot be made", "--output")),
    "figure into a file": (("reproduce", "all", "-o", "task.csv"), ("task.csv is a file", "Give a folder")),
}


def files_of(folder):
    """Return what is there, with the contents of files, so that nothing is lost and nothing is added."""
    found = [path for path in folder.iterdir() if path.name != "__pycache__"]
    return {path.name: path.read_bytes() if path.is_file() else None for path in found}


def refusal(arguments):
    """Run a command that must be refused before any long work, and return what it says."""
    result = CliRunner().invoke(app, list(arguments), prog_name="decond")
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG.keys())
def test_says_what_was_given_what_is_accepted_and_what_to_do(arguments, words, folder):
    before = files_of(folder)
    message = refusal(arguments)
    for expected in words:
        assert expected in message
    assert files_of(folder) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_name_the_known_ones(command):
    message = refusal([command, "--outptu", "x"])
    assert f"decond {command} has no option --outptu; did you mean --output?" in message
    assert f"See decond {command} --help." in message
    assert "--json" in message


def test_no_command_shows_the_help_and_the_first_step():
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    for command in COMMANDS:
        assert command in result.stdout
    assert "Name a command. New here? decond demo" in result.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there_for_every_command(command, flag):
    result = CliRunner().invoke(app, [command, flag])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "--output" in result.stdout
    assert not re.search(r"<\w+(\[\w+\])?>|\{|\}", result.stdout)


def test_the_help_of_all_commands_shows_no_types_of_python():
    for arguments in ([], ["--help"]):
        said = CliRunner().invoke(app, arguments).stdout
        assert "--version" in said
        assert not re.search(r"<\w+(\[\w+\])?>|\{|\}", said)


def test_help_breaks_its_sentences_where_the_terminal_ends():
    said = CliRunner().invoke(app, ["demo", "--help"]).stdout
    assert "no row has a wind speed with its power. Wanted is power as a function of wind," in said


def test_usage_shows_arguments_as_they_are_typed():
    said = CliRunner().invoke(app, ["fit", "--help"], prog_name="decond").stdout
    assert "Usage: decond fit [OPTIONS] PAIRS [TASK]" in said


def test_memory_that_runs_out_is_answered_by_what_the_command_can_do(capsys, monkeypatch):
    import typer

    monkeypatch.setenv("COLUMNS", "80")
    for message, start in (
        ("Unable to allocate 74.5 GiB", "Unable to allocate 74.5 GiB."),
        ("", "the data do not fit"),
    ):
        with pytest.raises(typer.Exit) as ended, wrong_input("Use fewer --inducing points."):
            raise MemoryError(message)
        assert ended.value.exit_code == 2
        said = capsys.readouterr().err
        assert said.startswith(f"Error: {start}")
        assert said.endswith("Use fewer --inducing points.\n")
