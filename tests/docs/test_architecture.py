"""The walks of ARCHITECTURE.md name the files that the work goes through, and no more than a reader can hold."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from expected import says_little
from scipy import stats

import decond
from decond import TaskTransformedGP, lfi

PAGE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCE = Path(decond.__file__).parent


def files_of(question: str) -> tuple[set[str], set[str]]:
    """Return the files that answer a question, and those that they call."""
    paragraph = next(text for text in PAGE.split("\n\n") if question in text)
    answer, _, called = paragraph.partition("*They call*")
    return tuple(set(re.findall(r"`(\w+/\w+)`", part)) for part in (answer, called))


@contextmanager
def visited(*folders: str) -> Iterator[set[str]]:
    """Yield the files of these folders in which a function is called meanwhile."""
    found: set[str] = set()

    def _note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE) and path.parent.name in folders:
            found.add(f"{path.parent.name}/{path.stem}")

    before = sys.getprofile()
    sys.setprofile(_note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def test_how_f_is_learned_for_a_numeric_mediator_is_in_eight_files():
    answer, called = files_of("How is f learned for a numeric mediator?")
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, 30), rng.uniform(-3, 3, 30)
    with says_little(), visited("estimators", "conditional", "gp") as found:
        TaskTransformedGP(n_restarts=0).fit(np.sin(y), y, y_task, np.cos(y_task))
    answer.remove("gp/latent_input")  # of single measurements, instead of two others
    assert found == answer | called
    assert len(answer) <= 8


def test_how_one_simulation_is_run_and_stored_is_in_four_files(tmp_path):
    answer, _ = files_of("How is one simulation run and stored?")
    with visited("simulation") as found:
        lfi.simulate(
            lambda theta, rng: theta, lfi.Prior({"a": stats.norm()}), 3, store=tmp_path / "a.sqlite", progress=False
        )
    assert found == answer
    assert len(answer) <= 4


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:estimators|gp|conditional|methods|simulation)/\w+)`", PAGE)))
)
def test_every_file_that_is_named_exists(path):
    folder = SOURCE / ("lfi" if path.startswith(("methods", "simulation")) else "")
    assert (folder / f"{path}.py").is_file()
