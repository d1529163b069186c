"""Model files: what goes in comes out bit for bit; what is damaged or foreign is refused with a reason."""

import dataclasses
import errno
import json
import math
import pickle
import resource
import stat
import warnings
import zipfile

import hypothesis.extra.numpy as array_strategies
import hypothesis.strategies as st
import numpy as np
import pytest
from expected import raised, refused, warned
from hypothesis import given
from sklearn.exceptions import NotFittedError
from stub_models import Stub, rewrite, stub

from decond import __version__, features, kernels
from decond.errors import ArgumentTypeError
from decond.gp import FunctionPrior
from decond.io import ModelFileError, VersionWarning, _Decoder, _Encoder, _parts, load, save
from decond.parameters import Parametrized, parameter, same

pytestmark = pytest.mark.usefixtures("stub_is_known")


# ---- what goes in comes out ----------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=[]))
)
ARRAYS = array_strategies.arrays(
    st.sampled_from([np.dtype(name) for name in ("f8", ">f8", "f4", "i8", "u1", "?", "U3")]),
    array_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
LABELS = st.lists(st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False), min_size=1).map(
    lambda items: np.array([*items, None], dtype=object)[:-1]
)
MODULES = st.sampled_from(
    [
        kernels.RBF([0.1, 1 / 3]),
        2.0 * kernels.Matern32(0.7).on([1]) + kernels.Categorical().on([0]) ** 2,
        kernels.Precomputed([[2.0, 1.0], [1.0, 3.0]]) * kernels.Constant(0.3),
        features.Nystrom(kernels.RBF(), [[0.0], [1.0]]),
        features.RandomFourier(kernels.Matern12(), n_frequencies=3, seed=7, orthogonal=True).kernel(0.2),
        features.Polynomial(degree=3),
        kernels.Polynomial(degree=3),
        FunctionPrior(kernels.RationalQuadratic(), mean=0.5),
    ]
)
STATES = st.recursive(
    SCALARS | ARRAYS | LABELS | MODULES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers() | st.sampled_from(["$array", "$x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    elif isinstance(one, dict):
        assert_equal(list(one), list(other))
        assert_equal(list(one.values()), list(other.values()))
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype == object:
            assert_equal(one.ravel().tolist(), other.ravel().tolist())
        else:
            assert one.tobytes() == other.tobytes()  # NaN and -0.0 included
    elif isinstance(one, Parametrized):
        assert same(one, other)
    elif isinstance(one, float):
        assert math.isnan(other) if math.isnan(one) else one.hex() == other.hex()
    else:
        assert one == other


@given(STATES)
def test_every_state_comes_back_as_it_was(state):
    encoder = _Encoder()
    text = json.dumps(encoder.encode(state, "state"), allow_nan=False)
    assert_equal(state, _Decoder(encoder.arrays.__getitem__).decode(json.loads(text)))


@given(st.lists(ARRAYS | LABELS | MODULES, max_size=3))
def test_every_array_and_module_comes_back_from_a_file(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("models") / "model"
    save(stub(state), path)
    assert_equal(state, load(path).state_)


def test_parameters_of_the_estimator_come_back(model):
    loaded = load(model)
    assert same(loaded.kernel, kernels.RBF(0.1))
    assert loaded.scale == 1.0
    assert loaded.state_["names"] == ("a", "b")


def test_memory_order_is_kept_and_equal_arrays_are_stored_once(tmp_path):
    table = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    save(stub([table, table.copy("K"), table[:, ::2]]), tmp_path / "m")
    one, two, part = load(tmp_path / "m").state_
    assert not np.shares_memory(one, two)
    assert one.flags.f_contiguous
    assert not one.flags.c_contiguous
    np.testing.assert_array_equal(part, table[:, ::2])
    assert len(zipfile.ZipFile(tmp_path / "m").namelist()) == 3  # the header, the table once, its part


def test_numpy_numbers_become_plain_ones(tmp_path):
    save(stub([np.float64(0.1), np.int64(3), np.bool_(True), np.str_("a")]), tmp_path / "m")
    assert_equal(load(tmp_path / "m").state_, [0.1, 3, True, "a"])


def test_every_public_module_of_decond_has_a_name():
    """Kernels and feature maps that are missing from the registry could be fitted but not saved."""
    known = set(_parts().values())
    for package in (kernels, features):
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, type) and dataclasses.is_dataclass(value) and not value.__abstractmethods__:
                assert value in known


# ---- writing -------------------------------------------------------------------------------------------------


def test_the_same_model_gives_the_same_bytes_and_a_readable_header(model, tmp_path):
    save(load(model), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()
    header = json.loads(zipfile.ZipFile(model).read("header.json"))
    assert (header["format"], header["format_version"], header["class"]) == ("decond model", 1, "Stub")
    assert set(header["versions"]) == {"decond", "python", "numpy", "scipy", "scikit-learn"}
    assert header["params"]["kernel"] == {"$class": "kernels.RBF", "fields": {"lengthscale": 0.1}}


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(model):
    before = model.read_bytes()
    with refused("Stub.deep[1]", ArgumentTypeError):
        save(stub({"deep": [1, {1}]}), model)
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]


def test_a_disk_that_takes_no_more_leaves_the_old_file_and_nothing_else(model):
    before, limits = model.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number says which
            save(stub(np.zeros(10_000)), model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]


def test_a_new_file_has_the_permissions_of_any_other(model, tmp_path):
    (tmp_path / "other").write_text("")
    assert stat.S_IMODE(model.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


class Mine(kernels.Kernel):
    """A kernel that a user wrote."""

    width: float = parameter(default=1.0)

    def _gram(self, a, b):
        return np.ones((len(a), len(b)))

    def diagonal(self, a):
        return np.ones(len(a))


class MyRBF(kernels.RBF):
    """A subclass would lose its own code in the file."""


@pytest.mark.parametrize(
    ("kernel", "place"),
    [
        (Mine(), "Stub.kernel"),
        (2.0 * Mine() + kernels.RBF(), "Stub.kernel.parts[0].kernel"),
        (MyRBF(1.0), "Stub.kernel"),
    ],
)
def test_kernels_of_users_are_refused(kernel, place, tmp_path):
    with refused(place, ArgumentTypeError):
        save(stub([], kernel=kernel), tmp_path / "m")


def test_what_cannot_be_saved_is_refused(tmp_path):
    for other in (np.ones(3), type("SubStub", (Stub,), {})()):
        with refused("estimator", ArgumentTypeError):
            save(other, tmp_path / "m")
    for value in (np.random.default_rng(), np.ones(1, complex), np.ones(1, [("a", "f8")])):
        with refused("Stub.scale", ArgumentTypeError):
            save(stub([], scale=value), tmp_path / "m")
    with pytest.raises(NotFittedError):
        save(Stub(), tmp_path / "m")
    with pytest.raises(IsADirectoryError):
        save(stub([]), tmp_path)
    with pytest.raises(FileNotFoundError):
        save(stub([]), tmp_path / "nowhere" / "m")
    assert list(tmp_path.iterdir()) == []


# ---- damaged files -------------------------------------------------------------------------------------------


def test_no_file_a_folder_and_an_empty_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "m")
    with raised(ModelFileError, path=tmp_path, entry=None):
        load(tmp_path)
    (tmp_path / "empty").touch()
    with raised(ModelFileError, path=tmp_path / "empty", entry=None):
        load(tmp_path / "empty")


def test_a_file_cut_anywhere_is_refused(model):
    whole = model.read_bytes()
    for length in [len(whole) // 2, *range(0, len(whole), 7), len(whole) - 1]:
        model.write_bytes(whole[:length])
        with raised(ModelFileError, path=model):
            load(model)


def test_a_file_with_any_byte_changed_is_read_right_or_refused(model):
    """Bits that carry meaning are under a checksum; the rest (dates, permissions) may change."""
    whole, n_refused = model.read_bytes(), 0
    for position in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[position] ^= 0x11
        model.write_bytes(changed)
        try:
            np.testing.assert_array_equal(load(model).state_["weights"], np.arange(12.0).reshape(4, 3))
        except ModelFileError:
            n_refused += 1
    assert n_refused > len(whole) / 6


# ---- files of another version, or of something else ----------------------------------------------------------


@pytest.mark.parametrize("version", [2, 0, "1", True])
def test_another_format_version_is_refused(model, version):
    rewrite(model, lambda header: header.update(format_version=version, versions={"decond": "9.3.1"}))
    with raised(ModelFileError, path=model, entry="header.json") as caught:
        load(model)
    assert "9.3.1" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.path, copy.entry) == (model, "header.json")


def test_another_minor_version_of_decond_warns_and_a_patch_does_not(model):
    rewrite(model, lambda header: header["versions"].update(decond="0.999.0"))
    with warned(VersionWarning, path=model, written_by="0.999.0", read_by=__version__):
        load(model)
    rewrite(model, lambda header: header.pop("versions"))
    with warned(VersionWarning, path=model, written_by=None):
        load(model)
    patch = ".".join(__version__.split(".")[:2]) + ".999"
    rewrite(model, lambda header: header.update(versions={"decond": patch}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(model)


FOREIGN = {
    "text": b"x,y\n1,2\n",
    "a pickle": pickle.dumps({"model": 1}),
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(100),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with raised(ModelFileError, path=tmp_path / "m", entry=None):
        load(tmp_path / "m")


def test_zips_of_something_else_are_refused(model, tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with raised(ModelFileError, path=tmp_path / "arrays.npz", entry=None):
        load(tmp_path / "arrays.npz")
    rewrite(model, lambda header: header.update(format="other model"))
    with raised(ModelFileError, path=model, entry=None):
        load(model)
