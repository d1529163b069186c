"""A stand-in for a fitted estimator, and model files changed on purpose."""

import json
import zipfile

from sklearn.base import BaseEstimator


class Stub(BaseEstimator):
    """The smallest thing that keeps the contract of an estimator."""

    def __init__(self, kernel=None, scale=1.0):
        self.kernel, self.scale = kernel, scale

    def fit(self, state):
        self.state_ = state
        return self

    def _fitted_state(self):
        return self.state_

    def _restore(self, state):
        self.state_ = state


def stub(state, **params):
    return Stub(**params).fit(state)


def rewrite(path, change=lambda header: None, **entries):
    """Write a model file again with a changed header and other entries."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(contents["header.json"])
    change(header)
    contents["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**contents, **entries}.items():
            archive.writestr(name, content)
