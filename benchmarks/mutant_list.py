"""The mutants of `mutants`: edits after which the source contradicts the paper, or a rule of the library.

Anchors (`before`) are short, occur exactly once in their file and hold no text of messages. A mutant goes out of this
list only if it changes nothing that can be observed.
"""

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One edit of a file below src/decond, and the tests that notice it, separated by spaces."""

    file: str
    before: str
    after: str
    tests: str


THEOREMS, CONTRACTS = "tests/theorems/test_", "tests/contracts/test_"
ALGEBRA = "tests/linalg/test_linalg.py"
KERNELS = CONTRACTS + "every_kernel.py"
FEATURES = CONTRACTS + "every_feature_map.py"
SPECTRA = "tests/kernels/test_kernels.py"
POSTERIORS = CONTRACTS + "every_posterior.py"
MEANS = THEOREMS + "section_2_mean_embeddings.py"
CONDITIONAL = THEOREMS + "section_3_conditional_mean.py"
DECONDITIONAL = THEOREMS + "section_4_deconditional_mean.py"
LOSSES = THEOREMS + "section_5_chained_losses.py"
CUBE = THEOREMS + "section_5_models_cube.py"
TASKS = THEOREMS + "section_5_task_transformed.py"
TABLE_C = THEOREMS + "appendix_c_transformed_regression.py"
TABLE_E = THEOREMS + "appendix_e_encoded_expectations.py"
TABLE_F = THEOREMS + "appendix_f_kernel_bayes_rules.py"
OPERATORS = THEOREMS + "appendix_f_operators.py"
APPLICATIONS = THEOREMS + "section_8_applications.py"
SIMULATORS = THEOREMS + "section_8_lfi.py"
MIXTURES = CONTRACTS + "mixtures.py"
LATENT = CONTRACTS + "latent_inputs.py"
SAMPLER = CONTRACTS + "latent_sampler.py"
LAPLACE = CONTRACTS + "laplace.py"
AVERAGES = CONTRACTS + "model_average.py"
COMPLETED = CONTRACTS + "completed_groups.py"
DENSITY = CONTRACTS + "input_density.py"


def _of(file: str, tests: str, *edits: tuple[str, str] | tuple[str, str, str]) -> list[Mutant]:
    """Return the mutants of one file; an edit may name its own tests."""
    return [Mutant(file, edit[0], edit[1], edit[2] if len(edit) == 3 else tests) for edit in edits]


LINALG = [
    *_of(
        "linalg.py",
        POSTERIORS,
        ("-0.5, right_bar.T, solution.T", "0.5, right_bar.T, solution.T", TASKS),
        ("factor.size * np.log(2.0 * np.pi)", "factor.size * np.log(np.pi)", TABLE_C),
        ("return -0.5 * float((white", "return -1.0 * float((white", TABLE_C),
        ("columns * (factor.log_determinant", "(factor.log_determinant"),
        ("share = -0.5 * alpha.shape[1]", "share = -0.5"),
        ("lower[np.diag_indices(len(lower))] *= 0.5", "lower[np.diag_indices(len(lower))] *= 1.0", ALGEBRA),
        ("half_solve_transposed(lower + lower.T)", "half_solve_transposed(lower)", ALGEBRA),
        ("-0.5 * factor.half_solve_transposed(half.T)", "0.5 * factor.half_solve_transposed(half.T)", ALGEBRA),
        ("(-self._alpha).reshape", "self._alpha.reshape"),
    ),
    *_of(
        "linalg.py",
        ALGEBRA,
        ("return 2.0 * float(np.log(np.diagonal", "return float(np.log(np.diagonal"),
        ("trans=int(not transposed)).reshape", "trans=int(transposed)).reshape"),
        ("side=0, lower=0, trans_a=int(not transposed)", "side=0, lower=0, trans_a=int(transposed)"),
        ("trans_a=int(transposed), overwrite_b=1", "trans_a=int(not transposed), overwrite_b=1"),
        ("dgemm(-1.0, b[:, first]", "dgemm(1.0, b[:, first]"),
        ("return np.tril(upper.T)", "return np.tril(upper)"),
        ("vectors * np.sqrt(np.maximum(values", "vectors * (np.maximum(values"),
        ("return Factor(upper, relative * scale)", "return Factor(upper, relative)"),
        ("return norm * norm", "return norm"),
        ("<= condition else None", ">= condition else None"),
        ("dpocon(self._upper, norm)", "dpocon(self._upper, 1.0)"),
        ("np.trace(matrix) / len(matrix)", "np.trace(matrix)"),
        ("scale = float(np.abs(np.diagonal(matrix)).mean())", "scale = 1.0"),
        ("JITTERS = (1e-14, 1e-12, 1e-10, 1e-8)", "JITTERS = (1e-14, 1e-12, 1e-10, 1e-2)"),
    ),
    *_of(
        "linalg.py",
        ALGEBRA,
        ("(self.size - self.core.size) * float", "self.size * float"),
        ("(b - multiply(self.basis, inside)) / self.noise", "(b - multiply(self.basis, inside))"),
        ("(outside**2).sum() / self.noise", "(outside**2).sum()", TASKS),
        ("column / np.sqrt(remaining[pivot])", "column / remaining[pivot]"),
        ("int(np.argmax(remaining))", "int(np.argmin(remaining))"),
        ("remaining - factor[:, k] ** 2", "remaining - factor[:, k]"),
        ("add_to_diagonal(core, noise)", "add_to_diagonal(core, noise**2)"),
    ),
    *_of(
        "linalg.py",
        ALGEBRA,
        ("blas.dsymm(scale, lower.T, left.T", "blas.dsymm(1.0, lower.T, left.T"),
        ("np.tril(corner, -1).T", "np.tril(corner).T"),
        ("full[start:stop, :start].T", "full[:start, start:stop]"),
    ),
]

KERNELS_AND_FEATURES = [
    *_of(
        "kernels/stationary.py",
        MEANS,
        ("return _exp_of_multiple(squared, -0.5)", "return _exp_of_multiple(squared, -1.0)"),
        ('cdist(left, right, "sqeuclidean")', 'cdist(left, right, "euclidean")'),
        ("left, right = a / lengthscale, b / lengthscale", "left, right = a / lengthscale**2, b / lengthscale"),
        ("decay *= (5.0 / 3.0) * squared", "decay *= squared"),
        ("-0.5 * values)", "-1.0 * values)", KERNELS),
        ("decay *= -1.5", "decay *= -3.0", KERNELS),
        ("r *= -5.0 / 6.0", "r *= 5.0 / 6.0", KERNELS),
        ("-0.5 * values / (1.0 + u)", "-0.5 * values", KERNELS),
        ("u / (1.0 + u) - logs", "-logs", KERNELS),
        ("-2.0 * spread, lengthscale", "2.0 * spread, lengthscale", KERNELS),
        ("2.0 * (row_sums * left - first) / lengthscale", "2.0 * (row_sums * left + first) / lengthscale", KERNELS),
        ("column_sums * right - second", "right - second", KERNELS),
        ("cosine * sine_bar - sine * cosine_bar", "cosine * sine_bar + sine * cosine_bar", KERNELS),
        ("cosine * cosine_bar + sine * sine_bar", "cosine * cosine_bar - sine * sine_bar", KERNELS),
        ("sine_bar - sine * cosine_bar) * (2.0", "sine_bar - sine * cosine_bar) * (1.0", KERNELS),
        ("_lengthscale_slope(-angles", "_lengthscale_slope(angles", KERNELS),
        ("lengthscale_a + lengthscale_b, self", "lengthscale_a, self", KERNELS),
        ("+ (turns[1] * turn_b).sum(axis=0)", "", KERNELS),
        ("where=squared > 1e-16", "where=squared > 1e-36", KERNELS),
        ("-0.5 * values, r,", "0.5 * values, r,", KERNELS),
        ("np.vdot(adjoint, slope)", "slope.sum()", KERNELS),
        ("bar = adjoint * profile.slope", "bar = profile.slope", KERNELS),
        ("np.array([-2.0 * np.vdot(bar", "np.array([-1.0 * np.vdot(bar", KERNELS),
        ("left - 2.0 * first) * left", "left - first) * left", KERNELS),
        ("(column_sums * right**2)", "(column_sums * right)", KERNELS),
        ("in pairs]) / lengthscale**2", "in pairs]) / lengthscale", KERNELS),
        ("float(slopes.sum()) / lengthscale", "float(slopes.sum())", KERNELS),
        ("slopes.sum(keepdims=True)) / lengthscale", "slopes.sum(keepdims=True))", KERNELS),
        ("-(adjoint * frequencies).sum(axis=0)", "(adjoint * frequencies).sum(axis=0)", KERNELS),
        ("0.5 * squared / self.alpha))", "squared / self.alpha))"),
        ("angle = 2.0 * math.pi", "angle = math.pi"),
        ("len(chi)) / self.degrees)", "len(chi)))", SPECTRA),
        ("rng.gamma(self.alpha, 1.0 / self.alpha", "rng.gamma(self.alpha, self.alpha", SPECTRA),
        ("radii[:, None] / self.lengthscale", "radii[:, None] * self.lengthscale", FEATURES),
    ),
    *_of(
        "kernels/kernel.py",
        KERNELS,
        ("bar = 2.0 * adjoint[rows, columns]", "bar = adjoint[rows, columns].copy()"),
        ("np.arange(start, stop)] *= 0.5", "np.arange(start, stop)] *= 1.0"),
        (".sum(axis=1) / (upper - lower)", ".sum(axis=1) / step"),
        ("np.tril(bar[:, start:])", "bar[:, start:]"),
        ("self.pullback.a[rows] += part.a", "self.pullback.a[rows] = 0.5 * part.a"),
        ("self.pullback.b[columns] += part.b", "self.pullback.b[columns] = part.b"),
        ("added(part.parameters, self.pullback.parameters)", "part.parameters"),
    ),
    *_of(
        "kernels/composite.py",
        FEATURES,
        ("self.variance * inner.variance", "inner.variance"),
        ("size=n, p=weights", "size=n, p=None", SPECTRA),
        ("self.variance * self.kernel.diagonal(a)", "self.kernel.diagonal(a)", KERNELS),
        ("operator.mul, (part.diagonal", "operator.add, (part.diagonal", KERNELS),
        ("self.variance * slope for", "slope for", KERNELS),
        ("grams[:i] + grams[i + 1 :]", "grams", KERNELS),
        ("self.exponent * gram **", "gram **", KERNELS),
        ("float(np.vdot(adjoint, gram))", "float(np.vdot(adjoint, self.variance * gram))", KERNELS),
        ("bars[0][:, column] += inner.a[:, i]", "bars[0][:, column] += inner.a[:, 0]", KERNELS),
        ("bars[1][:, column] += inner.b[:, i]", "bars[1][:, i] += inner.b[:, i]", KERNELS),
        ("inner.pull(adjoint, self.variance * variance_bar)", "inner.pull(adjoint, variance_bar)", KERNELS),
        ("variance_bar * inner.variance}", "variance_bar}", KERNELS),
        ("variance_bar * variance / spectrum.variance", "variance_bar", KERNELS),
        ("chosen[:, None] == i, adjoint, 0.0", "chosen[:, None] >= i, adjoint, 0.0", KERNELS),
    ),
    *_of(
        "kernels/nonstationary.py",
        KERNELS,
        ("return (self._scaled(a) ** 2).sum", "return self._scaled(a).sum"),
        ("_scaled_columns(self, b).T + self.offset) **", "_scaled_columns(self, b).T - self.offset) **", MEANS),
        ("slope = -2.0 * (a_bar", "slope = -1.0 * (a_bar"),
        ("self.degree * inner **", "inner **"),
        ('"offset": float(bar.sum())', '"offset": float(adjoint.sum())'),
        ("adjoint.T @ a / kernel", "adjoint.T @ a * kernel"),
        ("a_bar / kernel.lengthscale,", "a_bar,"),
        ("value=adjoint.sum()", "value=self.value * adjoint.sum()"),
        ("variance=adjoint[same].sum()", "variance=adjoint.sum()"),
    ),
    *_of(
        "features.py",
        FEATURES,
        (
            "math.sqrt(spectrum.variance / self.n_frequencies)",
            "math.sqrt(spectrum.variance / 2 / self.n_frequencies)",
            SPECTRA,
        ),
        ("sine_bar * cosine - cosine_bar * sine", "sine_bar * cosine + cosine_bar * sine"),
        ("self._factor().half_solve(self.base", "self._factor().solve(self.base"),
        (
            "math.sqrt(multinomial * self.offset ** int(exponents[0]))",
            "multinomial * self.offset ** int(exponents[0])",
            MEANS,
        ),
        ("self.variance * (self.features.transform(a) ** 2)", "(self.features.transform(a) ** 2)", KERNELS),
    ),
]

EMBEDDINGS = [
    *_of(
        "embeddings/mean_embedding.py",
        MEANS,
        ("np.concatenate([self.weights, -other.weights])", "np.concatenate([self.weights, other.weights])"),
        ("self.weights / total", "self.weights"),
        ("np.sqrt(max(self.inner(self), 0.0))", "max(self.inner(self), 0.0)"),
    ),
    *_of(
        "embeddings/covariance.py",
        MEANS,
        ("(self.weights * values.T).T", "values"),
        ("self.y, self.x, self.weights.T)", "self.y, self.x)"),
        ("float(f @ self._weighted(g))", "float(f @ g)", TABLE_E),
        ("self.x, self._weighted(g)", "self.x, g", TABLE_E),
        ("self.weights @ values", "self.weights.T @ values", OPERATORS),
    ),
    *_of(
        "embeddings/conditional_mean.py",
        CONDITIONAL,
        ("len(y_rows) * self.regularization", "self.regularization"),
    ),
    *_of(
        "embeddings/deconditional_mean.py",
        DECONDITIONAL,
        ("len(self.y_prior_) * self.evidence_regularization", "self.evidence_regularization"),
        ("len(self.y_prior_) * self.evidence_regularization", "len(self.x_) * self.evidence_regularization"),
        ("self.kernel_y, self.regularization)", "self.kernel_y, self.evidence_regularization)"),
        ("multiply(gram, transformation)", "transformation"),
        ("self.smoother_.sandwich(self.kernel_x.gram(self.x_, self.x_))", "self.kernel_x.gram(self.x_, self.x_)"),
        ("kernel.variance * np.eye", "np.eye"),
        ("self._feature_kernel().variance * features", "features"),
        ("solve_rows(self.smoother_.bridge(cross))", "solve_rows(cross)"),
    ),
    *_of(
        "embeddings/bayes_rule.py",
        TABLE_F,
        ("add_to_diagonal(matrix, m * self", "add_to_diagonal(matrix, self"),
        ("add_to_diagonal(matrix, m**2 * self", "add_to_diagonal(matrix, m * self"),
        ("add_to_diagonal(squared, m**2 * self", "add_to_diagonal(squared, m * self"),
        ("add_to_diagonal(S, m * self", "add_to_diagonal(S, self"),
        ("root, m = np.sqrt(self.ratio_)", "root, m = self.ratio_"),
        (
            "CovarianceOperator(self.kernel_x, self.x_, self.ratio_ / len(self.y_prior_))",
            "CovarianceOperator(self.kernel_x, self.x_, self.ratio_)",
            OPERATORS,
        ),
        ("self.gram_ * self.ratio_", "self.gram_ * self.ratio_[:, None]"),
        ("np.maximum(ratio, 0.0)", "np.abs(ratio)"),
        ("root = np.sqrt(self.ratio_)", "root = self.ratio_"),
    ),
    *_of(
        "conditional/smoother.py",
        CONDITIONAL,
        ("add_to_diagonal(matrix, ridge)", "add_to_diagonal(matrix, ridge**2)"),
        ("ridge / kernel.variance", "ridge", TASKS),
        ("self.bridge(self.bridge(gram).T)", "self.bridge(gram)", DECONDITIONAL),
    ),
    *_of(
        "embeddings/herding.py",
        APPLICATIONS,
        ("-1.0 / self.count", "-1.0 / max(self.count - 1, 1)"),
        ("np.add(total, row, out=total)", "np.copyto(total, row)"),
    ),
]

OBSERVATIONS = [
    *_of(
        "gp/observations.py",
        POSTERIORS,
        ("noise = self.noise**2 if self.repeats", "noise = self.noise if self.repeats"),
        ("noise = self.noise**2 if self.repeats is None else", "noise = self.noise**2 if True else"),
        ("            self.noise**2 if self.repeats is None else", "            self.noise**2 if True else"),
        ("return _trace(noise_bar) if repeats is None else", "return _trace(noise_bar) if True else"),
        ('return {"noise": 2.0 * self.noise * _mean_trace', 'return {"noise": self.noise * _mean_trace'),
        ("self.scale * self.noise_covariance,", "1.0 * self.noise_covariance,"),
        ('"scale": float(np.sum(', '"scale": 0.5 * float(np.sum('),
        ("np.bincount(index, self.weights)[index]", "np.bincount(index)[index]"),
        ("np.bincount(index, weights**2)", "np.bincount(index, weights)"),
        ("(np.diagonal(noise_bar) @ self._averaging()[1])", "np.trace(noise_bar)"),
        ("(averaging, 1.0 / squares,", "(averaging, squares,"),
        (
            "1.0 - np.unique(self.groups, return_counts=True)[1] / self",
            "np.unique(self.groups, return_counts=True)[1] / self",
        ),
        ("return noise + target_variance", "return noise"),
        ("add_to_diagonal(matrix, target_variance)", "pass"),
        ("self.y, tau**2,", "self.y, self.noise**2,"),
        ('gradient["noise"] += 2.0 * self.noise * ridge_bar', 'gradient["noise"] += 0.0', TASKS),
        ('["mediator_noise"] = 2.0 *', '["mediator_noise"] = 1.0 *'),
        ("within.a + within.b + across.a", "within.a + across.a", APPLICATIONS),
        ("gram_bar -= middle_bar", "gram_bar += middle_bar", TASKS),
    ),
    *_of(
        "gp/linear_gaussian.py",
        POSTERIORS,
        ("covariance -= transposed_times", "covariance += transposed_times", TASKS),
        ("np.where(several, counts - 1.0, 1.0)", "np.where(several, counts, 1.0)"),
        ("np.outer(~several, counts * own", "np.outer(~several, own"),
        ("within_bar, -within_bar", "within_bar, within_bar"),
        ("smoother.ridge * multiply(", "multiply(", TASKS),
        ("smoother.kernel.gram(y_task, y_task)", "np.zeros((len(y_task), len(y_task)))", TASKS),
    ),
    *_of(
        "gp/latent_input.py",
        LATENT,
        ("np.bincount(index, z / variance) / precision", "np.bincount(index, z) / precision"),
        ("-0.5 * (logs + scatter)", "-0.5 * logs"),
        ("np.log(precision / (2.0 * np.pi)).sum() + ", "", SAMPLER),
        ("self.mean - offset - seen - noise", "self.mean - offset - seen"),
        ("return offset + through.apply", "return through.apply"),
        ("logs *= -0.5 / variance", "logs *= -1.0 / variance"),
        ("logs += self._log_weights", "pass"),
        ("+ top - 0.5 * np.log(2.0 * np.pi * variance)", "+ top"),
        ("values**2 + added) / total", "values**2) / total"),
        ("np.exp(values + 0.5 * variance)", "np.exp(values)"),
        ("mean + 0.5 * self._noise**2, variance", "mean, variance"),
        ("np.exp(mean + 0.5 * variance)", "np.exp(mean)"),
        ("np.outer(mean, mean) * np.expm1(self", "np.outer(mean, mean) * np.exp(self"),
        ("-np.log(z + self.logarithm[0])", "np.log(z + self.logarithm[0])"),
        (
            "np.exp(log_likelihoods.min(axis=0) - log_likelihoods)",
            "np.exp(log_likelihoods - log_likelihoods.max(axis=0))",
        ),
        ("np.sqrt(len(ratios)) * ratios.mean", "len(ratios) * ratios.mean"),
        ("self.value = self._integral - divergence", "self.value = self._integral + divergence"),
        (
            "0.5 * self._squares() / self._seen.variance",
            "0.5 * (self._z - self.mean[:, None]) ** 2 / self._seen.variance",
        ),
        ("+ scatter + logs)", "+ logs)"),
        ("np.diagonal(self._gram) - (half", "np.diagonal(self._gram) + (half"),
        ("0.5 * (np.outer(beta, beta) - multiply", "0.5 * (np.outer(beta, beta) + multiply", POSTERIORS),
        ("np.array([beta.sum()])", "np.array([0.0])", POSTERIORS),
        ("self._squares() / v**2 - 1.0 / v", "self._squares() / v**2", POSTERIORS),
        ("pulled.a + pulled.b", "pulled.a", POSTERIORS),
    ),
]

LEARNING = [
    *_of(
        "gp/model_average.py",
        LAPLACE,
        ("0.5 * float(np.sum(np.log(2.0 * np.pi / self.curvatures)))", "0.0"),
        ("self.objective - self.log_mass - 0.5 *", "-0.5 *"),
        ("spread / np.sqrt(mode.curvatures)", "spread / mode.curvatures"),
        ("mode.axes.T for mode in modes", "mode.axes for mode in modes"),
        ("logs -= logsumexp([mode.log_density(vectors) for mode in modes], axis=0)", "logs = logs"),
        ("if is_in else -np.inf", "if True else -np.inf"),
        ("key=lambda end: -end[0]", "key=lambda end: end[0]"),
        ("squared_distance(vector)[0] > 1.0 for", "squared_distance(vector)[0] > -1.0 for"),
        ("(behind - ahead) / (2.0", "(behind - ahead) / (1.0"),
        ("np.maximum(curvatures, settings.least_curvature)", "np.maximum(curvatures, 1e-9)"),
    ),
    *_of(
        "gp/model_average.py",
        AVERAGES,
        ("np.log(weights @ densities).sum(axis=1)", "np.log(weights @ densities).mean(axis=1)"),
        ("importance @ weights / importance.sum()", "weights[np.argmax(importance)]"),
        ("np.flatnonzero(weights >= threshold)", "np.arange(len(weights))"),
        ("[w * c.weights for w, c in", "[c.weights for w, c in"),
        ("cumulative = np.cumsum(weights[order])", "cumulative = np.cumsum(np.ones(len(order)))"),
    ),
    *_of(
        "gp/latent_input.py",
        SAMPLER,
        ("value + self._objective.log_hyperprior(vector)", "value"),
        ("- self._rng.exponential()", "- 0.1"),
        ("(step, high) if step < 0.0 else (low, step)", "(low, step) if step < 0.0 else (step, high)"),
        ("with_known_variance(own, self.target_variance)", "own"),
        ("if stack_tables else runs", "if not stack_tables else runs"),
        ("share / len(run.values)) for", "share) for"),
    ),
    *_of(
        "conditional/completed_groups.py",
        COMPLETED,
        ("np.sqrt(gain * sampling)", "np.sqrt(sampling)"),
        ("+ gain * (means - means.mean(axis=0))", "+ (means - means.mean(axis=0))"),
        ("portion = (counts / sizes)", "portion = (0.0 * counts)"),
        ("self.log_densities(difference, scale) - gaussian", "self.log_densities(difference, scale)"),
        ("sizes - counts, settings.many", "sizes, settings.many"),
    ),
    *_of(
        "conditional/residual_density.py",
        DENSITY,
        ("center + stretch * (mean - center)", "mean"),
        ("logs = task - proposal[:, None]", "logs = task + 0.0 * proposal[:, None]"),
        ("1.0 + drift * ndtri", "1.0 + 0.0 * ndtri"),
        ("np.sqrt(1.0 - smoothing**2) * residual + smoothing * noise", "residual + noise"),
    ),
]

REGRESSION = [
    *_of(
        "gp/linear_gaussian.py",
        TASKS,
        ("inner -= linear.shared", "inner += linear.shared"),
        ("linear.bridge(linear.bridge(gram).T)", "linear.bridge(gram)"),
        ("linear.add_noise(evidence)", "pass", TABLE_C),
        ("linear.sampling._variances(np.diagonal(gram), averaged)", "averaged", POSTERIORS),
    ),
    *_of(
        "gp/linear_gaussian.py",
        POSTERIORS,
        ("times_symmetric(inner, G, 2.0)", "times_symmetric(inner, G, 1.0)"),
        ("M_bar -= residual_bar @ mean", "M_bar += residual_bar @ mean"),
        ("mean_bar = -(sums", "mean_bar = (sums"),
        ("t * multiply(half.T, half)", "multiply(half.T, half)"),
        ("(t / noise) * multiply(covariance, rows)", "t * multiply(covariance, rows)"),
        ("rows_bar += np.outer", "rows_bar -= np.outer"),
        ("(low_rank.size - core.size) / noise", "low_rank.size / noise"),
        ("pulled.a + pulled.b", "pulled.a", APPLICATIONS),
        ("residual = z - np.outer(sums, mean)", "residual = z - mean"),
    ),
    *_of(
        "gp/posteriors.py",
        POSTERIORS,
        ("alpha / diagonal[:, None]", "alpha"),
        ("np.outer(ones, self._mean)", "self._mean"),
        ("multiply(cross.T, self._weights) + self._mean", "multiply(cross.T, self._weights)"),
        ("vectors * np.sqrt(np.maximum(values, 0.0))", "vectors * np.maximum(values, 0.0)"),
        ("covariance.diagonal(x) - (explained", "covariance.diagonal(x) + (explained"),
        ("covariance.gram(x, x) - multiply", "covariance.gram(x, x) + multiply", TABLE_C),
        ("add_to_diagonal(precision, 1.0 / self._variance)", "add_to_diagonal(precision, self._variance)", TABLE_C),
        ("linear.rows) / np.sqrt(linear.noise)", "linear.rows) / linear.noise"),
        ("(self._weights**2).sum() / variance", "(self._weights**2).sum()", TABLE_C),
        ("len(self._weights) * np.log(variance)", "np.log(variance)", TABLE_C),
        ("m * np.log(self._linear.noise)", "np.log(self._linear.noise)"),
        ("outside / low_rank.noise", "outside"),
        ("np.sqrt(noise), outside / noise", "np.sqrt(noise), outside"),
        ("factor.inverse_diagonal() - (unwhitened", "factor.inverse_diagonal() + (unwhitened"),
    ),
    *_of("gp/conditioning.py", LOSSES, ("weights = prior.variance * (", "weights = (", CUBE)),
    *_of(
        "gp/posteriors.py",
        MIXTURES,
        ("part + (mean - center) ** 2 for", "part for"),
        ("weight * (within + step[:, None] * step[None, :])", "weight * within"),
        ("part.variance + part.mean**2 for part", "part.variance for part", AVERAGES),
        ("axis=0, b=weights[:, None])", "axis=0)", AVERAGES),
    ),
    *_of(
        "gp/conditioning.py",
        APPLICATIONS,
        ("z_task).mean(y_pairs)", "z_task).mean(x_pairs)"),
    ),
]

INFERENCE = [
    *_of(
        "lfi/methods/kernel_search.py",
        SIMULATORS,
        ("at = self._best_of_grid(start, reach) if wide", "at = np.log(start) if wide"),
        ("[self.kernel_theta is None] * len", "[False] * len"),
        ("self.kernel_x is None, reg", "False, reg"),
        ("regularization is None]", "False]"),
        ("+ n * regularizations", "+ regularizations"),
        ("n * float(regularizations[0])", "float(regularizations[0])"),
        ("len(self.phi) * ridge / len(self.draws)", "ridge"),
        ("- 0.5 * self.dimension", "- self.dimension"),
        ("np.log(2.0 * np.pi * widths**2)", "np.log(widths**2)"),
        ("(self._squared - nearest) / widths[:, None] ** 2", "(self._squared - nearest) / widths[:, None]"),
        ("kernel.gram(phi, draws).mean(axis=1)", "kernel.gram(phi, draws).sum(axis=1)"),
    ),
    *_of(
        "lfi/methods/dme.py",
        SIMULATORS,
        ("per_parameter=per_parameter", "per_parameter=False"),
        ('self.prior_.from_working(phi) if self.coordinates == "raw" else phi', "phi"),
        ('self._to_data()(rows) if self.coordinates == "raw" else rows', "rows"),
        ("log_evidence = self._log_evidence_of_data(log_evidence)", "pass"),
        ('"working":\n            log_evidence', '"raw":\n            log_evidence'),
        ("kernel=self._herding", "kernel=None"),
        ("kernel_theta, ridge, delta)", "kernel_theta, delta, ridge)"),
        ("candidates=self._candidates", "candidates=None"),
    ),
    *_of(
        "lfi/methods/deconditioning.py",
        SIMULATORS,
        ("features.at_simulations.shape[1] * regularization", "regularization"),
        ("self.spectrum + delta)", "self.spectrum + delta**2)"),
        ("basis.unwhitening / ridge[:, None]", "basis.whitening / ridge[:, None]"),
        ("multiply(at_draws * weights, at_draws.T)", "multiply(at_draws, at_draws.T)"),
    ),
    *_of(
        "lfi/methods/kernel_posterior.py",
        SIMULATORS,
        ("return log_evidence - float(", "return log_evidence + float("),
        ("source.herding(self.points, self.kernel)", "source.normalized().herding(self.points, self.kernel)"),
        ("outer.scale * inner.scale)", "inner.scale)"),
    ),
]

MUTANTS = [*LINALG, *KERNELS_AND_FEATURES, *EMBEDDINGS, *OBSERVATIONS, *LEARNING, *REGRESSION, *INFERENCE]
