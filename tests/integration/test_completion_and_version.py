"""Shell completion as a shell runs it, and the versions that a report of a problem names."""

import contextlib
import gzip
import importlib.metadata
import io
import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import decond
from decond.cli import app

LINES = {
    "decond ": {"demo", "fit", "predict", "infer", "compare", "reproduce"},
    "decond re": {"reproduce"},
    "decond reproduce ": {"all", "figure3", "figure4", "figure5"},
    "decond reproduce figure4 --o": {"--output"},
    "decond fit --unc": {"--uncertainty"},
    "decond fit --uncertainty ": {"honest", "plain"},
    "decond infer --method k": {"kelfi", "kbr", "kabc"},
}
"""What is typed, and what the tab key offers."""

TAB = """
eval "$(_DECOND_COMPLETE=source_bash decond)"
for line in "$@"; do
    read -ra COMP_WORDS <<< "$line"
    [[ "$line" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _decond_completion decond
    echo "${COMPREPLY[*]}" | tr '\\n' ' '
    echo
done
"""
"""A shell that reads the script of completion and presses the tab key after each line."""


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120)


def invoke(*arguments, **environment):
    result = CliRunner().invoke(app, list(arguments), prog_name="decond", env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Put a `decond` that runs this Python first on the path."""
    program = tmp_path / "decond"
    code = 'import sys; sys.argv[0] = "decond"; from decond.cli import app; app()'
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_commands_options_and_figures(path):
    typed = ["decond ", "decond reproduce "]
    made = run("bash", "-c", TAB, "bash", *typed)
    assert made.returncode == 0, made.stderr
    assert [set(line.split()) for line in made.stdout.splitlines()] == [LINES[line] for line in typed]


@pytest.mark.parametrize("line", LINES)
def test_what_the_tab_key_offers(line):
    words = line.split() + [""] * line.endswith(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DECOND_COMPLETE": "complete_bash"}
    assert set(invoke(**asked).split()) == LINES[line]


def test_the_tab_key_offers_columns_of_the_named_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("wind,pressure\n1,2\n")
    with gzip.open("task.tsv.gz", "wt") as stream:
        stream.write("pressure\tpower\n1\t2\n")
    pd.DataFrame({"x": [1.0], "z": [2.0]}).to_parquet("table.parquet")
    (tmp_path / "rivers.csv").write_bytes("Fluß;Höhe\nÄlv;1,5\n".encode("cp1252"))
    (tmp_path / "excel.csv").write_text("sep=|\nday|wind\nmon|7\n")
    (tmp_path / "damaged.csv").write_bytes(b"day,wind\n" + b"monday,7\n" * 120_000 + b"\0")  # far behind
    lines = {
        "decond fit pairs.csv task.tsv.gz --x ": {"wind", "pressure", "power"},
        "decond fit pairs.csv task.tsv.gz --x wind --y p": {"pressure", "power"},
        "decond fit table.parquet --sparse --x x --z ": {"x", "z"},
        "decond fit rivers.csv --x ": {"Fluß", "Höhe"},
        "decond fit excel.csv --x ": {"day", "wind"},
        "decond fit damaged.csv --x ": {"day", "wind"},
        "decond fit none.csv --x ": set(),
    }
    for line, offered in lines.items():
        words = line.split() + [""] * line.endswith(" ")
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DECOND_COMPLETE": "complete_bash"}
        assert set(invoke(**asked).split()) == offered, line


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_words(shell):
    asked = {"_TYPER_COMPLETE_ARGS": "decond reproduce ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    said = invoke(_DECOND_COMPLETE=f"complete_{shell}", **asked)
    for figure in ("all", "figure3", "figure4", "figure5"):
        assert figure in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell):
    assert f"_DECOND_COMPLETE=complete_{shell}" in invoke(_DECOND_COMPLETE=f"source_{shell}")


def test_versions_in_words_and_as_json():
    lines = dict(line.rsplit(" ", 1) for line in invoke("--version").splitlines())
    assert lines["decond"] == decond.__version__
    assert lines["Python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("NumPy", "SciPy"):
        assert lines[name] == importlib.metadata.version(name)
    assert json.loads(invoke("--version", "--json")) == lines


def test_letters_that_a_stream_cannot_print_become_question_marks():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    with contextlib.redirect_stdout(stream):
        with pytest.raises(SystemExit):
            app(["--version"])
        print("decond ± 2")
    assert stream.buffer.getvalue().endswith(b"decond ? 2\n")
