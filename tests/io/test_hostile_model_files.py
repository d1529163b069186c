"""Model files made to do harm: each is refused, and nothing in them is executed, imported or unpacked."""

import io
import os
import pickle
import sys
import warnings
import zipfile

import numpy as np
import pytest
from expected import raised
from stub_models import rewrite

from decond.io import ModelFileError, load


class Bomb:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


def pickled_npy(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    return stream.getvalue()


def npy(descr="<f8", shape="(4, 3)", data=bytes(96), version=b"\x01\x00"):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def test_pickles_are_never_executed(model, tmp_path):
    mark = tmp_path / "executed"
    rewrite(model, **{"arrays/0.npy": pickled_npy(mark)})
    with raised(ModelFileError, entry="arrays/0.npy"):
        load(model)
    for content in (pickle.dumps(Bomb(mark)), pickle.dumps(Bomb(mark), protocol=0)):
        model.write_bytes(content)
        with pytest.raises(ModelFileError):
            load(model)
        rewritten = tmp_path / "in_zip"
        with zipfile.ZipFile(rewritten, "w") as archive:
            archive.writestr("header.json", content)
        with raised(ModelFileError, entry="header.json"):
            load(rewritten)
    assert not mark.exists()


ARRAY_ATTACKS = {
    "huge shape": npy(shape="(1000000000000, 3)"),
    "overflowing shape": npy(shape=f"({2**62}, {2**62})"),
    "negative shape": npy(shape="(-4, -3)"),
    "huge but empty": npy(shape=f"(0, {2**70})", data=b""),
    "large but empty": npy(shape=f"(0, {2**40})", data=b""),
    "empty text": npy("<U0", shape=f"({2**40},)", data=b""),
    "too many dimensions": npy(shape="(" + "1, " * 99 + ")", data=bytes(8)),
    "objects": npy("|O", data=pickle.dumps([1])),
    "objects within": npy([("a", "|O")]),
    "complex": npy("<c16", "(2, 3)"),
    "code as a shape": npy(shape="(__import__('os').getpid(),)"),
    "code as a header": b"\x93NUMPY\x01\x00\x0e\x00print('hello!')",
    "another version": npy(version=b"\x02\x00"),
    "no magic": b"junk",
}
OTHER_ARRAYS = {"shape": npy(shape="(3, 4)"), "type": npy(descr="<i8")}


@pytest.mark.parametrize("content", ARRAY_ATTACKS.values(), ids=ARRAY_ATTACKS.keys())
def test_hostile_arrays_are_refused_before_they_are_built(model, content):
    rewrite(model, **{"arrays/0.npy": content})
    with raised(ModelFileError, path=model, entry="arrays/0.npy") as caught:
        load(model)
    assert caught.value.__cause__ is not None  # the array itself, and not what the header says of it


@pytest.mark.parametrize("content", OTHER_ARRAYS.values(), ids=OTHER_ARRAYS.keys())
def test_arrays_other_than_the_header_says_are_refused(model, content):
    rewrite(model, **{"arrays/0.npy": content})
    with raised(ModelFileError, path=model, entry="arrays/0.npy", __cause__=None):
        load(model)


def set_kernel(name, **fields):
    return lambda header: header["params"].update(kernel={"$class": name, "fields": fields})


RBF = {"$class": "kernels.RBF", "fields": {}}


def random_features(n):
    return {"$class": "features.RandomFourier", "fields": {"base": RBF, "n_frequencies": n}}


def power_of_powers(depth, exponent):
    inner = RBF if depth == 0 else power_of_powers(depth - 1, exponent)
    return {"$class": "kernels.Power", "fields": {"kernel": inner, "exponent": exponent}}


HEADER_ATTACKS = {
    # what is changed, and the class of the error behind the refusal, if there is one
    "class": (lambda header: header.update({"class": "os.system"}), None),
    "class of another type": (lambda header: header.update({"class": ["Stub"]}), None),
    "eval as a kernel": (set_kernel("builtins.eval", lengthscale="1"), None),
    "a function of ours": (set_kernel("kernels.median_heuristic", x=[[1.0]]), None),
    "a private path": (set_kernel("kernels.base.np.save"), None),
    "a list as a name": (set_kernel(["kernels.RBF"]), None),
    "a value that is refused": (set_kernel("kernels.RBF", lengthscale=-1.0), ValueError),
    "a field that does not exist": (set_kernel("kernels.RBF", __class__="x"), TypeError),
    "a parameter that does not exist": (lambda header: header["params"].update(x=1), TypeError),
    "no state": (lambda header: header.pop("state"), KeyError),
    "unknown mark": (lambda header: header.update(state={"$eval": "1"}), None),
    "unknown float": (lambda header: header.update(state={"$float": "1e5"}), KeyError),
    "missing array": (lambda header: header.update(state={"$array": 7}), None),
    "array by path": (lambda header: header.update(state={"$array": "../../0"}), None),
    "array by truth": (lambda header: header.update(state={"$array": False}), None),
    "a kernel that is none": (set_kernel("kernels.Power", kernel={}), None),
    "a power of powers": (lambda header: header["params"].update(kernel=power_of_powers(9, 4)), None),
    "features without bytes": (lambda header: header["params"].update(kernel=random_features(10**9)), None),
    "a swarm of lists": (lambda header: header.update(state=[[]] * 200_000), None),
    "labels in a wrong shape": (lambda header: header.update(state={"$labels": [1], "shape": [9**9]}), ValueError),
    "unhashable key": (lambda header: header.update(state={"$dict": [[[], 1]]}), TypeError),
}


@pytest.mark.parametrize(("change", "cause"), HEADER_ATTACKS.values(), ids=HEADER_ATTACKS.keys())
def test_hostile_headers_are_refused(model, change, cause):
    rewrite(model, change)
    with raised(ModelFileError, path=model, entry="header.json") as caught:
        load(model)
    assert isinstance(caught.value.__cause__, cause or type(None))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "\x00", '{"a": NaN}', '{"a": Infinity}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_headers_that_are_no_json_object_are_refused(model, text):
    rewrite(model)
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("header.json", text)
    with raised(ModelFileError, path=model, entry="header.json"):
        load(model)


def test_a_tree_that_is_too_deep_is_refused(model):
    with zipfile.ZipFile(model) as archive:
        header = archive.read("header.json").decode()
    text = header[: header.index('"state"')] + '"state": ' + "[" * 900 + "]" * 900 + "}"
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("header.json", text)
    with raised(ModelFileError, path=model, entry="header.json"):
        load(model)


@pytest.mark.parametrize("name", ["../escaped", "/etc/escaped", "arrays/../../escaped", "arrays/1.npy.py", "C:\\x"])
def test_entries_that_escape_or_do_not_belong_are_refused(model, name):
    rewrite(model, **{name: b"x"})
    with raised(ModelFileError, path=model, entry=name):
        load(model)
    assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with raised(ModelFileError, path=tmp_path / "pipe"):
        load(tmp_path / "pipe")


def test_one_array_again_and_again_is_refused(model):
    reference = {"$array": 0, "dtype": "<f8", "shape": [4000, 3]}
    content = npy(shape="(4000, 3)", data=bytes(96_000))
    rewrite(model, lambda header: header.update(state=[reference] * 200), **{"arrays/0.npy": content})
    with raised(ModelFileError, path=model, entry="header.json"):
        load(model)


def test_zip_bombs_are_refused(model):
    with zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("arrays/1.npy", bytes(50_000_000))
    assert model.stat().st_size < 200_000
    with raised(ModelFileError, path=model, entry="arrays/1.npy"):
        load(model)


def test_overlapping_entries_are_refused(model):
    """The directory names one stored block many times."""
    with zipfile.ZipFile(model, "a") as archive:
        info = archive.getinfo("arrays/0.npy")
        for i in range(1, 500):
            twin = zipfile.ZipInfo(f"arrays/{i}.npy")
            twin.file_size = twin.compress_size = info.file_size
            twin.CRC, twin.header_offset = info.CRC, info.header_offset
            archive.filelist.append(twin)
        archive._didModify = True
    with raised(ModelFileError, path=model, entry=None):
        load(model)


def test_repeated_entries_are_refused(model):
    with zipfile.ZipFile(model, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("header.json", "{}")
    with raised(ModelFileError, path=model, entry="header.json"):
        load(model)


def test_a_module_that_a_file_names_is_not_imported(model):
    rewrite(model, set_kernel("this.RBF"))  # the standard library's Zen, imported by nobody else
    with pytest.raises(ModelFileError):
        load(model)
    assert "this" not in sys.modules
