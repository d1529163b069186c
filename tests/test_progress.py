"""Bars on a terminal: work within other work has its own line; elsewhere, and where not wanted, there are none."""

import contextlib
import io
import os
import re
import subprocess
import sys
import threading
import warnings

import pytest
from scipy import stats

from decond import lfi
from decond.progress import progress_bar

pty = pytest.importorskip("pty")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a terminal to put in place of stderr; pytest puts its own there when the test begins."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def without_escapes(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def simulator(theta, rng):
    return theta + 0.5 * rng.standard_normal(1)


PRIOR = lfi.Prior({"mean": stats.norm(0, 2)})


def infer(**options):
    method = lfi.MDN(steps=100, rounds=1, components=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        lfi.infer(simulator, PRIOR, [1.0], 60, method=method, **options)


def on_a_real_terminal(code):
    """Return what a program prints to stdout, a pipe, and what it draws on stderr, a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=environment)
    net = threading.Timer(300.0, program.kill)
    net.start()
    os.close(theirs)
    drawn = b""
    while piece := _read(ours):
        drawn += piece
    os.close(ours)
    printed = program.communicate()[0].decode()
    net.cancel()
    assert program.returncode == 0, drawn.decode()
    return printed, without_escapes(drawn.decode())


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_an_inference_on_a_terminal_shows_simulations_and_training_below_it(terminal):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(terminal):
        infer()
    assert printed.getvalue() == ""
    drawn = without_escapes(terminal.getvalue())
    for line in ("inferring", r"simulations\s+\S+\s+\d+/48", r"training\s+\S+\s+\d+/100"):
        assert re.search(line, drawn), (line, drawn)


def test_an_inference_that_is_to_be_silent_is_silent_in_all_its_parts(terminal):
    with contextlib.redirect_stderr(terminal):
        infer(progress=False)
    assert terminal.getvalue() == ""


def test_what_is_printed_meanwhile_goes_where_it_went():
    code = """
import warnings
from decond.progress import progress_bar
with progress_bar("counting", 2) as report:
    print("one")
    warnings.warn("two " * 50)
    report(1, status="half of it")
"""
    printed, drawn = on_a_real_terminal(code)
    assert printed == "one\n"
    assert f"UserWarning: {'two ' * 50}".split() == drawn[drawn.index("UserWarning") :].split()[:51]
    assert re.search(r"counting\s+\S+\s+1/2 half of it", drawn), drawn


def test_the_line_of_work_that_fails_goes_and_the_rest_stays(capfd):
    with progress_bar("outer", 2, shown=True) as report:
        with pytest.raises(ZeroDivisionError), progress_bar("inner", 5):
            raise ZeroDivisionError
        report(2, words="outer: last")
    assert "inner" not in capfd.readouterr().err
    with progress_bar("alone"):
        assert capfd.readouterr().err == ""


def test_false_silences_what_is_within(capfd):
    with progress_bar("outer", shown=False), progress_bar("inner", shown=True) as report:
        report(1, 2)
    assert capfd.readouterr().err == ""
    with progress_bar("afterwards", 3, shown=True) as report:
        report(3)
    assert "afterwards" in capfd.readouterr().err


@pytest.mark.slow
def test_worker_processes_leave_the_terminal_to_the_main_one():
    code = """
import joblib
from decond.progress import progress_bar
def work(_):
    with progress_bar("inner", 2) as report:
        report(1)
with progress_bar("outer", 2) as report:
    joblib.Parallel(n_jobs=2)(joblib.delayed(work)(i) for i in range(2))
    report(2)
"""
    _, drawn = on_a_real_terminal(code)
    assert "outer" in drawn
    assert "inner" not in drawn


def test_labels_are_shown_as_they_are_and_the_last_method_is_counted(capfd):
    methods = {"[red] a [/b]": "rejection", 2: "rejection"}
    found = lfi.compare(simulator, PRIOR, [1.0], methods, 60, progress=True)
    assert list(found.found) == ["[red] a [/b]", "2"]
    assert re.search(r"comparing\s+\S+\s+2/2", capfd.readouterr().err)


def test_a_diagnosis_that_reports_elsewhere_draws_nothing(terminal):
    sims = lfi.simulate(simulator, PRIOR, 300, progress=False)
    seen = []
    with contextlib.redirect_stderr(terminal):
        lfi.diagnose(lfi.RejectionABC(0.3), sims, PRIOR, [1.0], n=20, progress=lambda *told: seen.append(told))
    assert seen
    assert terminal.getvalue() == ""
