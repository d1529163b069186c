"""What a new user meets first: a light import, no compilation, the command, the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_pages import check_outputs, run_page

ROOT = Path(__file__).parents[1]


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=600, **options)


def python(code):
    """Run code in a new interpreter in which every warning is an error, and return what it prints."""
    result = run(sys.executable, "-W", "error", "-c", code)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def test_imports_leave_heavy_libraries_for_when_they_are_used_and_nothing_but_networks_needs_jax():
    code = """
import sys
heavy = {"sklearn", "pandas", "jax", "matplotlib", "scipy.stats", "pyarrow", "typer"}
import decond
listed = dir(decond)
import decond.datasets, decond.tables
print(sorted(heavy & set(sys.modules)))
import decond.cli
print(sorted(heavy & set(sys.modules)))

import numpy as np
from decond import ConditionalMeanOperator, DeconditionalMeanOperator, KernelBayesRule, kernels
from decond.gp import FunctionPrior, TaskTransformed, condition
rng = np.random.default_rng(0)
k, ell = kernels.RBF(0.7), kernels.Matern52(0.9)
for n in range(20, 25):
    x, y, y_prior = rng.standard_normal((n, 2)), rng.standard_normal((n, 1)), rng.standard_normal((40 - n, 1))
    ConditionalMeanOperator(k, ell).fit(x, y).weights(y_prior)
    DeconditionalMeanOperator(k, ell).fit(x, y, y_prior).embedding(x[0]).herd(3)
    KernelBayesRule(k, ell, "a", "II").fit(x, y, y_prior).weights(x[:5])
    KernelBayesRule(k, ell, "importance").fit(x, y, y_prior).weights(x[:5])
    posterior = condition(FunctionPrior(k), TaskTransformed(x, y, y_prior, ell), rng.standard_normal(40 - n))
    posterior.mean(x[:7]), posterior.std(x[:7])
from decond import SparseGP, TaskTransformedGP, features, problems
from decond.gp import Direct, log_evidence_and_gradient
p = problems.latent_function()
TaskTransformedGP(n_restarts=0).fit(p.x, p.y, p.y_task, p.z_task)
SparseGP(n_inducing=5, max_iterations=5).fit(p.x, np.sin(p.x[:, 0]))
log_evidence_and_gradient(FunctionPrior(features.RandomFourier(kernels.RBF())), Direct([0.0, 0.5]), [1.0, 2.0])
print("jax" in sys.modules)

names = {name: getattr(decond, name) for name in decond.__all__}
print(set(decond.__all__) <= set(listed), "__version__" in listed, decond.__all__ == sorted(decond.__all__))
print(decond.TaskTransformedGP is decond.estimators.TaskTransformedGP is names["TaskTransformedGP"])
print(all(getattr(decond, name) is value for name, value in names.items()))
from decond import *
print(TaskTransformedGP.__name__, load.__module__.partition(".")[0])
print(hasattr(decond, "TaskTransformedGPs"))
"""
    assert python(code).splitlines() == [
        "[]",
        "['typer']",
        "False",
        "True True True",
        "True",
        "True",
        "TaskTransformedGP decond",
        "False",
    ]


def test_the_package_runs_as_a_command():
    result = run(sys.executable, "-W", "error", "-m", "decond", "dmeo")
    assert (result.returncode, result.stdout) == (2, "")
    assert all(name in result.stderr for name in ("'dmeo'", "demo"))


def test_commands_of_the_readme_are_those_of_ci():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test"):
        assert command in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_readme_examples_run(tmp_path):
    page = ROOT / "README.md"
    printed = run_page(page, tmp_path, timeout=600)
    check_outputs(page, printed)
    assert (tmp_path / "posterior.png").exists()
    mean, deviation = (float(number) for number in re.findall(r"\[([-\d.e]+)\s*\]", "".join(printed.values())))
    assert abs(mean - 0.25) < 3 * deviation < 0.3
