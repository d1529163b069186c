"""Wrong arguments of every command: exit code 2, nothing on stdout, one message that says what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import decond, invoke, refusal

import decond as package
from decond.cli import demo

COMMANDS = ("demo", "fit", "predict", "infer", "compare", "reproduce")
FIT = ("fit", "pairs.csv", "task.csv", "--x", "wind", "--y", "pressure", "--z", "power")
SPARSE = ("fit", "task.csv", "--x", "pressure", "--z", "power", "--sparse")
PREDICT = ("predict", "first.decond", "pairs.csv")
INFER = ("infer", "short_waits:simulate", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "60")


@pytest.fixture(autouse=True)
def inputs(folder):
    """Make everything that right arguments would name; the simulator leaves a trace."""
    for name in ("folder", "folder.csv", "folder.html"):
        (folder / name).mkdir()
    (folder / "pairs.csv").write_text("wind,pressure,other\n1,2,2\n2,3,1\n3,4,1\n")
    (folder / "task.csv").write_text("pressure,power\n1,2\n2,3\n3,5\n")
    (folder / "prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    (folder / "seen.csv").write_text("mean\n0.59\n")
    (folder / "mine.png").write_bytes(b"a photograph")
    (folder / "short_waits.py").write_text(
        "def simulate(theta, rng):\n    open('ran', 'a').close()\n    return [rng.exponential(1 / theta[0])]\n"
    )


def replaced(arguments, old, new):
    return tuple(new if argument == old else argument for argument in arguments)


WRONG = {
    # what was typed: the arguments, and what the message must name: arguments, options, files, choices
    "unknown command": (("dmeo",), ("'dmeo'", "demo")),
    "argument of demo": (("demo", "now"), ("(now)", "Usage: decond demo")),
    "no tables": (("fit",), ("tables",)),
    "no z": (FIT[:-2], ("--z",)),
    "no prior": (("infer", "short_waits:simulate"), ("--prior",)),
    "unknown figure": (("reproduce", "figure9"), ("figure9", "figure3")),
    "negative seed": ((*FIT, "--seed", "-1"), ("--seed",)),
    "unknown error bars": ((*FIT, "--uncertainty", "wide"), ("--uncertainty", "'wide'", "honest", "plain")),
    "unknown method": ((*INFER, "--method", "abc"), ("--method", "'abc'", "dme")),
    "two decimal signs": ((*FIT, "--decimal", ",,"), ("--decimal",)),
    "unknown decimal sign": ((*FIT, "--decimal", ";"), ("--decimal", "'.' or ','")),
    # two tables, one table, groups
    "one table": (("fit", "pairs.csv", "--x", "wind", "--y", "pressure", "--z", "power"), ("TASK", "--sparse")),
    "three tables": ((*FIT, "pairs.csv"), ("TASK", "3")),
    "both kinds": ((*SPARSE, "--aggregate"), ("--aggregate", "--sparse")),
    "targets of groups": ((*FIT, "--aggregate", "--targets", "single"), ("--targets", "--aggregate")),
    "no drift of groups": ((*FIT, "--aggregate", "--drift", "0"), ("--drift", "--aggregate")),
    "endless drift": ((*FIT, "--targets", "single", "--drift", "inf"), ("drift", "inf")),
    "sizes in no column": ((*FIT, "--aggregate", "--group-sizes", "many"), ("'many'", "task.csv", "pressure, power")),
    "idle option": ((*FIT, "--inducing", 5), ("--inducing", "--sparse")),
    "groups in one table": ((*FIT, "--y", "other", "--aggregate"), ("task.csv", "'other'", "pressure, power")),
    "z again": ((*FIT, "--y", "power"), ("'power'",)),
    # columns and files
    "wrong x": (replaced(FIT, "wind", "wnid"), ("pairs.csv", "'wnid'", "'wind'", "wind, pressure")),
    "missing table": (replaced(FIT, "pairs.csv", "pair.csv"), ("pair.csv", "pairs.csv")),
    "missing model": (("predict", "none.decond", "pairs.csv"), ("none.decond", "`decond fit`")),
    "table as a model": (("predict", "task.csv", "pairs.csv"), ("task.csv",)),
    "missing prior": (replaced(INFER, "prior.toml", "none.toml"), ("none.toml", "[rate]")),
    "missing observation": (replaced(INFER, "seen.csv", "none.csv"), ("none.csv", "seen.csv")),
    "text as a store": ((*INFER, "--store", "prior.toml"), ("prior.toml",)),
    "a method that cannot be checked": ((*INFER, "--method", "mcmc", "--check"), ("--check", "--method mcmc")),
    # places to write to
    "model in a folder": ((*FIT, "-o", "folder"), ("folder is a folder",)),
    "model nowhere": ((*FIT, "-o", "none/model"), (" none ",)),
    "model as a picture": ((*FIT, "-o", "a.png"), ("a.png", "a.decond")),
    "report as PDF": ((*FIT, "--report", "page.pdf"), ("--report", "page.pdf", ".html")),
    "predictions as JSON": ((*PREDICT, "-o", "p.json"), ("p.json", ".csv")),
    "picture onto a picture of the user": ((*FIT, "-o", "mine.decond"), ("mine.png", "--force")),
    "draws beside a picture of the user": ((*INFER, "-o", "mine.csv"), ("mine.png", "--force")),
    "model onto a table": ((*FIT, "-o", "task.csv", "--force"), ("task.csv",)),
    "draws onto the observation": ((*INFER, "-o", "seen.csv", "--force"), ("seen.csv",)),
    "predictions onto the table": ((*PREDICT, "-o", "pairs.csv", "--force"), ("pairs.csv",)),
    "demo into a file": (("demo", "-o", "task.csv"), ("task.csv", "--output")),
    "figure into a file": (("reproduce", "all", "-o", "task.csv"), ("task.csv", "--output")),
}


def contents():
    """Return what is there, with the contents of files, so that nothing is lost and nothing is added."""
    found = [path for path in Path().iterdir() if path.name != "__pycache__"]
    return {path.name: path.read_bytes() if path.is_file() else path.is_symlink() for path in found}


@pytest.mark.parametrize(("arguments", "names"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_and_nothing_is_written(arguments, names):
    before = contents()
    message = refusal(*arguments)
    assert all(name in message for name in names), message
    assert contents() == before


WRITTEN = {
    "model.decond": FIT,
    "model.png": FIT,
    "page.html": (*FIT, "--report", "page.html"),
    "posterior.csv": INFER,
    "posterior.png": INFER,
    "predictions.csv": PREDICT,
    "days.csv": ("demo", "-o", "."),
    "figure3.png": ("reproduce", "figure3", "-o", "."),
    "figures.md": ("reproduce", "all", "-o", "."),
    "compare.png": ("compare", "wind", "-o", "."),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_files_that_are_there_are_kept(name):
    Path(name).write_text("mine")
    before = contents()
    message = refusal(*WRITTEN[name])
    assert all(word in message for word in (name, "--force"))
    assert contents() == before


@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written_is_refused_before_the_work(name):
    Path(name).symlink_to("nowhere/there")  # which nobody can write to, whatever they may do
    before = contents()
    assert name in refusal(*WRITTEN[name], "--force")
    assert contents() == before


def test_files_are_overwritten_when_that_is_asked_for_also_through_links():
    for name in ("model.decond", "model.png", "page.html"):
        Path(name).symlink_to(f"folder/{name}")
        Path("folder", name).write_text("old")
    decond(*SPARSE, "--max-iterations", 2, "--report", "page.html", "--force")
    assert all(Path(name).is_symlink() for name in ("model.decond", "model.png", "page.html"))
    decond("predict", "folder/model.decond", "task.csv")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there_for_every_command(command):
    for flag in ("-h", "--help"):
        said = decond(command, flag)
        assert "--output" in said
        assert "--force" in said
    assert "--outptu" in refusal(command, "--outptu", "x")


def test_no_command_shows_the_help_and_the_first_step():
    result = invoke()
    assert result.exit_code == 2
    assert all(command in result.output for command in COMMANDS)
    assert "New here? decond demo" in result.output


def test_memory_that_runs_out_is_one_message(monkeypatch):
    def fails():
        raise MemoryError("Unable to allocate 74.5 GiB")

    monkeypatch.setattr(demo, "wind_day", fails)
    message = refusal("demo")
    assert "74.5 GiB" in message
    assert "--sparse" in message


def test_versions_are_printed():
    lines = dict(line.rsplit(" ", 1) for line in decond("--version").splitlines())
    assert lines["decond"] == package.__version__
    assert lines["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "scipy", "scikit-learn"} <= set(lines)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_shells_complete_commands_and_choices(folder, monkeypatch):
    code = 'import sys; sys.argv[0] = "decond"; from decond.cli import app; app()'
    for typed, offered in {"decond re": "reproduce", "decond reproduce figure3 --fo": "--force"}.items():
        words = typed.split()
        asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1), "_DECOND_COMPLETE": "complete_bash"}
        for name, value in asked.items():
            monkeypatch.setenv(name, value)
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert made.stdout.split() == [offered]
