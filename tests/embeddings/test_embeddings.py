"""Mean embeddings beyond what the theorem tests look at."""

import numpy as np
import pytest

from decond import (
    ConditionalMeanOperator,
    DeconditionalMeanOperator,
    KernelBayesRule,
    MeanEmbedding,
    features,
    kernels,
)

RNG = np.random.default_rng(0)
POINTS, WEIGHTS = RNG.standard_normal((30, 2)), RNG.uniform(-0.3, 1.0, 30)
WEIGHTS /= WEIGHTS.sum()


def test_expectation_takes_values_functions_and_several_columns():
    mu = MeanEmbedding(kernels.RBF(), POINTS, WEIGHTS)
    assert mu.expectation(POINTS[:, 0]) == pytest.approx(WEIGHTS @ POINTS[:, 0])
    np.testing.assert_allclose(mu.expectation(lambda x: x**2), WEIGHTS @ POINTS**2)
    assert mu.normalized().expectation(np.ones(30)) == pytest.approx(1.0)
    assert MeanEmbedding(kernels.RBF(), POINTS).expectation(POINTS[:, 1]) == pytest.approx(POINTS[:, 1].mean())


def problem(n, m):
    rng = np.random.default_rng(1)
    y = rng.uniform(-2, 2, (n, 1))
    return np.hstack([np.sin(y), y]) + 0.1 * rng.standard_normal((n, 2)), y, rng.uniform(-2, 2, (m, 1))


@pytest.mark.parametrize(("n", "m"), [(40, 15), (15, 40), (1, 6), (6, 1), (1, 1)])
def test_forms_of_the_operator_agree_and_auto_takes_the_smallest(n, m):
    x, y, y_prior = problem(n, m)
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    size = {"task": m, "transformation": min(n, 4), "features": 6}
    reference = DeconditionalMeanOperator(phi, psi, 0.1, 0.2, form="task").fit(x, y, y_prior).weights(x)
    for form in ("auto", "transformation", "features"):
        operator = DeconditionalMeanOperator(phi, psi, 0.1, 0.2, form=form).fit(x, y, y_prior)
        np.testing.assert_allclose(operator.weights(x), reference, rtol=1e-8, atol=1e-10)
        if form == "auto":
            assert size[operator.form_] == min(size.values())


@pytest.mark.parametrize("form", ["task", "transformation"])
def test_operator_with_repeated_rows_and_small_regularization(form):
    """Repeated rows make both Gram matrices singular; the answer is that of an explicit inverse in long form."""
    x, y, y_prior = (np.repeat(part, 2, axis=0) for part in problem(8, 9))
    k, ell = kernels.RBF(0.7), kernels.Matern32(0.7)
    operator = DeconditionalMeanOperator(k, ell, 1e-5, 1e-5, form=form).fit(x, y, y_prior)
    A = np.linalg.solve(ell(y) + 16e-5 * np.eye(16), ell(y, y_prior))
    expected = np.linalg.solve(A.T @ k(x) @ A + 18e-5 * np.eye(18), A.T @ k(x, x[:3]))
    np.testing.assert_allclose(operator.weights(x[:3]), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variant", ["a", "b", "importance"])
def test_bayes_rules_find_a_posterior(variant):
    """Prior U(-2, 2) and x = y + noise: the posterior mean is near x, whatever proposal the pairs came from."""
    rng = np.random.default_rng(0)
    y = rng.normal(0.5, 1.0, 400)
    x = y + 0.2 * rng.standard_normal(400)
    rule = KernelBayesRule(kernels.RBF(0.4), kernels.RBF(0.6), variant, "I", 1e-3, 1e-4)
    posterior = rule.fit(x, y, rng.uniform(-2, 2, 300)).embedding(0.8)
    assert posterior.normalized().expectation(lambda y: y[:, 0]) == pytest.approx(0.8, abs=0.12)


def test_labels_as_mediator():
    """With a categorical kernel and little regularization the conditional mean is the group's mean."""
    groups = np.array(["a", "b", "a", "c", "b", "a"])
    x = np.arange(6.0)
    operator = ConditionalMeanOperator(kernels.RBF(), kernels.Categorical(), 1e-10).fit(x, groups)
    np.testing.assert_allclose(operator.expectation(x, ["a", "b", "c"]), [7 / 3, 2.5, 3.0], rtol=1e-8)
    assert len(operator.embedding("b")) == 6
