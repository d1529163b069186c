"""What a new user meets first: import time, no compilation, the command line, the README."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import decond
from run_pages import check_outputs, run_page

ROOT = Path(__file__).parents[2]


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, **options)


def python(code, *flags, **options):
    result = run(sys.executable, *flags, "-c", code, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def import_time(module, *flags):
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return min(float(python(code, *flags)) for _ in range(3))


def test_import_is_quick_and_silent():
    assert import_time("decond", "-W", "error") <= 1.5 * import_time("jax")


def test_import_leaves_heavy_libraries_for_when_they_are_used():
    code = """
import sys
import decond
heavy = {"sklearn", "pandas", "jax", "matplotlib", "scipy.stats", "pyarrow", "typer"}
print(sorted(heavy & set(sys.modules)))
listed = dir(decond)
print(sorted(heavy & set(sys.modules)))
names = {name: getattr(decond, name) for name in decond.__all__}
print(set(decond.__all__) <= set(listed), "__version__" in listed, decond.__all__ == sorted(decond.__all__))
print(decond.TaskTransformedGP is decond.estimators.TaskTransformedGP is names["TaskTransformedGP"])
print(all(getattr(decond, name) is value for name, value in names.items()))
from decond import *
print(TaskTransformedGP.__name__, load.__module__.partition(".")[0])
try:
    decond.TaskTransformedGPs
except AttributeError as error:
    print(error)
"""
    lines = python(code, "-W", "error").splitlines()
    assert lines == [
        "[]",
        "[]",
        "True True True",
        "True",
        "True",
        "TaskTransformedGP decond",
        "module 'decond' has no attribute 'TaskTransformedGPs'",
    ]


@pytest.mark.parametrize("flag", [False, True])
def test_import_and_use_leave_the_64_bit_flag_alone(flag):
    code = f"""
import jax
jax.config.update("jax_enable_x64", {flag})
import decond
from decond.regression import Direct, FunctionPrior, log_evidence_and_gradient
value, gradient = log_evidence_and_gradient(FunctionPrior(decond.kernels.RBF()), Direct([0.0, 0.5]), [1.0, 2.0])
assert jax.config.jax_enable_x64 is {flag}
assert jax.numpy.ones(1).dtype == jax.numpy.{"float64" if flag else "float32"}
print(repr(value), repr(float(gradient["prior.kernel.lengthscale"])))
"""
    value, slope = map(float, python(code).split())

    def exact(lengthscale):
        S = np.array([[1.01, 0.0], [0.0, 1.01]]) + np.exp(-0.125 / lengthscale**2) * (1 - np.eye(2))
        z = np.array([1.0, 2.0])
        return -0.5 * (z @ np.linalg.solve(S, z) + np.linalg.slogdet(S)[1]) - np.log(2 * np.pi)

    assert value == pytest.approx(exact(1.0), rel=1e-14)
    assert slope == pytest.approx((exact(1.0 + 1e-5) - exact(1.0 - 1e-5)) / 2e-5, rel=1e-8)  # float32 has 1e-7


FIFTY_SIZES = """
import sys, time
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from decond import ConditionalMeanOperator, DeconditionalMeanOperator, KernelBayesRule, MeanEmbedding, kernels
from decond.regression import Direct, FunctionPrior, TaskTransformed, condition
rng = np.random.default_rng(0)
k, ell = kernels.RBF(0.7), kernels.Matern52(0.9)

def ours(x, y, y_prior, z):
    ConditionalMeanOperator(k, ell).fit(x, y).weights(y_prior)
    DeconditionalMeanOperator(k, ell).fit(x, y, y_prior).embedding(x[0]).herd(10)
    KernelBayesRule(k, ell, "a", "II").fit(x, y, y_prior).weights(x[:5])
    KernelBayesRule(k, ell, "importance").fit(x, y, y_prior).weights(x[:5])
    posterior = condition(FunctionPrior(k), TaskTransformed(x, y, y_prior, ell), z)
    posterior.mean(x[:7]), posterior.std(x[:7])

def plain(x, y, y_prior, z):  # one deconditional mean: the least that any of the five has to do
    K, L, cross = (np.exp(-cdist(a, b, "sqeuclidean")) for a, b in ((x, x), (y, y), (y, y_prior)))
    A = cho_solve(cho_factor(L + np.eye(len(L))), cross)
    AtK = A.T @ K
    cho_solve(cho_factor(AtK @ A + np.eye(len(z))), AtK)

def seconds(work, *tables):
    start = time.process_time()
    work(*tables)
    return time.process_time() - start

spent = []
for n in range(151, 201):
    x, y, y_prior = rng.standard_normal((n, 2)), rng.standard_normal((n, 1)), rng.standard_normal((351 - n, 1))
    tables = x, y, y_prior, rng.standard_normal(len(y_prior))
    spent.append((seconds(ours, *tables), seconds(plain, *tables)))
assert "jax" not in sys.modules, "JAX was imported, so something may have been compiled"
print(*np.sum(spent, axis=0))
"""


def test_fifty_sizes_compile_nothing_and_cost_what_their_algebra_costs():
    """In processor time on one thread of BLAS, by that of plain NumPy and SciPy on the same tables.

    Seconds depend on the machine and on what else it does; the ratio was 5.0 to 5.4 with it idle and busy.
    """
    result = run(sys.executable, "-c", FIFTY_SIZES, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    ours, plain = map(float, result.stdout.split())
    assert ours <= 10.0 * plain


def test_wrong_arguments_say_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    result = run(sys.executable, "-m", "decond", "demo", "--output", str(tmp_path / "file"))
    assert result.returncode == 2
    assert "is a file. Give a folder" in result.stderr
    assert "cannot be made" in decond("demo", "--output", tmp_path / "file" / "below", code=2)
    unknown = run(sys.executable, "-m", "decond", "dmeo")
    assert unknown.returncode == 2
    assert "demo" in unknown.stderr
    assert run(sys.executable, "-m", "decond", "--version").stdout.startswith("decond 0.")


BOTH_MODES = """
```python
distance = np.abs(samples - [[0.52, 2.62]])
assert np.mean(distance.min(axis=1) < 0.5) > 0.95
assert np.all((distance < 0.5).mean(axis=0) > 0.2), "both modes"
```
"""


def test_readme_examples_run_and_commands_are_those_of_ci(tmp_path):
    readme = (ROOT / "README.md").read_text()
    page, folder = tmp_path / "README.md", tmp_path / "run"
    page.write_text(readme + BOTH_MODES)
    folder.mkdir()
    printed = run_page(page, folder, timeout=300)
    check_outputs(page, printed)
    assert (folder / "posterior.png").exists()
    output = "".join(printed.values())
    mean, deviation = (float(number) for number in re.findall(r"\[([-\d.e]+)\s*\]", output))
    assert abs(mean - 0.25) < 3 * deviation < 0.3
    ci = (ROOT / ".ci" / "run").read_text()
    for command in ("make demo", "make test"):
        assert command in readme
    assert "make test" in ci.splitlines()
