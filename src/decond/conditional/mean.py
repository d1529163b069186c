"""Regression of x on φ, rows weighted, with exact leave-one-out residuals."""

import numpy as np

from decond.conditional.ridge import KernelFits

__all__ = ["GAIN", "MeanRegression", "SparseLinear"]

GAIN = 5.0
"""What a richer model has to gain in log likelihood, over all rows that count, to be preferred."""


class SparseLinear:
    """Weighted least squares that leaves out, for each output, the inputs that do not matter.

    The input of the smallest t statistic goes, one at a time, while t² < log of the effective number of rows (as
    the Bayesian information criterion asks).

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((200, 3))
    >>> fit = SparseLinear(phi, 2 * phi[:, [1]] + 0.1 * rng.standard_normal((200, 1)), np.ones(200))
    >>> fit.slopes.round(1)
    array([[0.],
           [2.],
           [0.]])
    """

    def __init__(self, inputs: np.ndarray, outputs: np.ndarray, weights: np.ndarray) -> None:
        share = weights / weights.sum()
        self.slopes = np.zeros((inputs.shape[1], outputs.shape[1]))
        self.constant = np.zeros(outputs.shape[1])
        self.residual = np.empty_like(outputs)
        design = np.column_stack([np.ones(len(inputs)), inputs]) * np.sqrt(share)[:, None]
        for column, output in enumerate(outputs.T):
            kept, beta, factor = _eliminated(design, np.sqrt(share) * output, 1.0 / np.sum(share**2))
            self.constant[column] = beta[0]
            self.slopes[np.array(kept[1:], dtype=int) - 1, column] = beta[1:]
            leverage = np.sum(factor**2, axis=1)
            missed = output - inputs @ self.slopes[:, column] - self.constant[column]
            self.residual[:, column] = missed / np.maximum(1.0 - leverage, 1e-6)
        self.loss = share @ self.residual**2

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Return predictions (n, q)."""
        return inputs @ self.slopes + self.constant


class MeanRegression:
    """m(φ): a sparse linear function where that is as good, else kernel ridge; chosen output by output.

    Attributes:
        linear, kernel: Both fits, for all outputs.
        residual: Leave-one-out residuals (n, q) of the chosen ones.
        smooth: For each output, whether kernel ridge was needed.
    """

    def __init__(self, inputs: np.ndarray, outputs: np.ndarray, weights: np.ndarray, fits: KernelFits) -> None:
        self.linear, self.kernel = SparseLinear(inputs, outputs, weights), fits.fit(outputs)
        effective = weights.sum() ** 2 / np.sum(weights**2)
        gain = 0.5 * effective * np.log((self.linear.loss + 1e-300) / (self.kernel.loss + 1e-300))
        self.smooth = gain > GAIN
        self.residual = np.where(self.smooth, self.kernel.residual, self.linear.residual)


def _eliminated(design: np.ndarray, output: np.ndarray, effective: float) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Return the columns kept (the first always), their coefficients, and Q with QQᵀ the hat matrix."""
    kept = list(range(design.shape[1]))
    while True:
        factor, triangle = np.linalg.qr(design[:, kept])
        inverse = np.linalg.pinv(triangle)
        beta = inverse @ (factor.T @ output)
        error = np.sum((output - design[:, kept] @ beta) ** 2) / max(effective - len(kept), 1.0)
        t_squared = beta**2 / (np.sum(inverse**2, axis=1) * error + 1e-300)
        if len(kept) == 1 or t_squared[1:].min() >= np.log(effective):
            return kept, beta, factor
        del kept[1 + int(np.argmin(t_squared[1:]))]
