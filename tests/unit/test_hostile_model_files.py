"""Model files made to do harm: each is refused, and nothing in them is executed, imported or unpacked."""

import io
import os
import pickle
import sys
import warnings
import zipfile

import numpy as np
import pytest
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
    with pytest.raises(ModelFileError, match=r"never pickled objects"):
        load(model)
    for content in (pickle.dumps(Bomb(mark)), pickle.dumps(Bomb(mark), protocol=0)):
        model.write_bytes(content)
        with pytest.raises(ModelFileError):
            load(model)
        rewritten = tmp_path / "in_zip"
        with zipfile.ZipFile(rewritten, "w") as archive:
            archive.writestr("header.json", content)
        with pytest.raises(ModelFileError, match=r"header cannot be read"):
            load(rewritten)
    assert not mark.exists()


ARRAY_ATTACKS = {
    "huge shape": (npy(shape="(1000000000000, 3)"), r"shape \(1000000000000, 3\) does not fit its 96 bytes"),
    "overflowing shape": (npy(shape=f"({2**62}, {2**62})"), r"does not fit"),
    "negative shape": (npy(shape="(-4, -3)"), r"does not fit"),
    "huge but empty": (npy(shape=f"(0, {2**70})", data=b""), r"no plain array"),
    "too many dimensions": (npy(shape="(" + "1, " * 99 + ")", data=bytes(8)), r"no plain array"),
    "objects": (npy("|O", data=pickle.dumps([1])), r"never pickled objects"),
    "objects within": (npy([("a", "|O")]), r"never pickled objects"),
    "complex": (npy("<c16", "(2, 3)"), r"only numbers and text"),
    "code as a shape": (npy(shape="(__import__('os').getpid(),)"), r"no plain array"),
    "code as a header": (b"\x93NUMPY\x01\x00\x0e\x00print('hello!')", r"no plain array"),
    "another version": (npy(version=b"\x02\x00"), r"another version of the npy format"),
    "no magic": (b"junk", r"no plain array"),
    "other shape than the header says": (npy(shape="(3, 4)"), r"shape \[3, 4\], but the header says <f8 of shape"),
    "other type than the header says": (npy(descr="<i8"), r"is <i8 of shape \[4, 3\], but the header says <f8"),
}


@pytest.mark.parametrize(("content", "message"), ARRAY_ATTACKS.values(), ids=ARRAY_ATTACKS.keys())
def test_hostile_arrays_are_refused(model, content, message):
    rewrite(model, **{"arrays/0.npy": content})
    with pytest.raises(ModelFileError, match=message):
        load(model)


def set_kernel(name, **fields):
    return lambda header: header["params"].update(kernel={"$class": name, "fields": fields})


HEADER_ATTACKS = {
    "class": (
        lambda header: header.update({"class": "os.system"}),
        r"holds a 'os\.system', which this decond does not",
    ),
    "class of another type": (lambda header: header.update({"class": ["Stub"]}), r"holds a \['Stub'\]"),
    "eval as a kernel": (set_kernel("builtins.eval", lengthscale="1"), r"names 'builtins\.eval', which is no kernel"),
    "a function of ours": (
        set_kernel("kernels.median_heuristic", x=[[1.0]]),
        r"median_heuristic', which is no kernel",
    ),
    "a private path": (set_kernel("kernels.base.np.save"), r"which is no kernel"),
    "a list as a name": (set_kernel(["kernels.RBF"]), r"does not describe a fitted Stub|no kernel"),
    "a value that the door refuses": (set_kernel("kernels.RBF", lengthscale=-1.0), r"lengthscale must be positive"),
    "a field that does not exist": (set_kernel("kernels.RBF", __class__="x"), r"unexpected keyword"),
    "a parameter that does not exist": (lambda header: header["params"].update(x=1), r"unexpected keyword"),
    "no state": (lambda header: header.pop("state"), r"KeyError: 'state'"),
    "unknown mark": (lambda header: header.update(state={"$eval": "1"}), r"unknown mark '\$eval'"),
    "unknown float": (lambda header: header.update(state={"$float": "1e5"}), r"KeyError: '1e5'"),
    "missing array": (lambda header: header.update(state={"$array": 7}), r"refers to array 7, which is not there"),
    "array by path": (
        lambda header: header.update(state={"$array": "../../0"}),
        r"array '\.\./\.\./0', which is not",
    ),
    "array by truth": (lambda header: header.update(state={"$array": False}), r"array False, which is not there"),
    "labels in a wrong shape": (lambda header: header.update(state={"$labels": [1], "shape": [9**9]}), r"reshape"),
    "unhashable key": (lambda header: header.update(state={"$dict": [[[], 1]]}), r"unhashable"),
}


@pytest.mark.parametrize(("change", "message"), HEADER_ATTACKS.values(), ids=HEADER_ATTACKS.keys())
def test_hostile_headers_are_refused(model, change, message):
    rewrite(model, change)
    with pytest.raises(ModelFileError, match=message):
        load(model)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "\x00", '{"a": NaN}', '{"a": Infinity}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_headers_that_are_no_json_object_are_refused(model, text):
    rewrite(model)
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("header.json", text)
    with pytest.raises(ModelFileError, match=r"header"):
        load(model)


def test_a_tree_that_is_too_deep_is_refused(model):
    with zipfile.ZipFile(model) as archive:
        header = archive.read("header.json").decode()
    text = header[: header.index('"state"')] + '"state": ' + "[" * 900 + "]" * 900 + "}"
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("header.json", text)
    with pytest.raises(ModelFileError, match=r"does not describe|cannot be read"):
        load(model)


@pytest.mark.parametrize("name", ["../escaped", "/etc/escaped", "arrays/../../escaped", "arrays/1.npy.py", "C:\\x"])
def test_entries_that_escape_or_do_not_belong_are_refused(model, name):
    rewrite(model, **{name: b"x"})
    with pytest.raises(ModelFileError, match=r"unexpected entry"):
        load(model)
    assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_zip_bombs_are_refused(model):
    with zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("arrays/1.npy", bytes(50_000_000))
    assert model.stat().st_size < 200_000
    with pytest.raises(ModelFileError, match=r"'arrays/1\.npy' is compressed or encrypted"):
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
    with pytest.raises(ModelFileError, match=r"claim more bytes than the file has"):
        load(model)


def test_repeated_entries_are_refused(model):
    with zipfile.ZipFile(model, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("header.json", "{}")
    with pytest.raises(ModelFileError, match=r"same name"):
        load(model)


def test_a_module_that_a_file_names_is_not_imported(model):
    rewrite(model, set_kernel("this.RBF"))  # the standard library's Zen, imported by nobody else
    with pytest.raises(ModelFileError):
        load(model)
    assert "this" not in sys.modules
