"""A pickle is read by a child with limits, which loads the names of plain containers
and NumPy arrays; for the rest there is a sentence.
"""

import collections
import contextlib
import json
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from commands import run
from deepval.basics.errors import InputError
from deepval.basics.files import pickles
from deepval.basics.files.bounded import Limits
from deepval.basics.files.pickles import read_pickle, unpickle
from only_where import memory_is_bounded

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=15,
)


@given(PLAIN, st.sampled_from([4, 5]))
def test_plain_containers_come_back(thing, protocol):
    assert unpickle(pickle.dumps(thing, protocol=protocol)) == thing


def test_tuples_and_sets_come_back_as_lists():
    assert unpickle(pickle.dumps({"a": (2, (3,)), "b": {5, 4}})) == {
        "a": [2, [3]],
        "b": [4, 5],
    }


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"x", "it holds a value of type bytes"),
        ({(1, 2): 3}, "it holds a key that is no text and no number"),
        (np.array([{}, []], dtype=object), "it holds a value of type array of object"),
        (np.zeros(2, dtype="M8[s]"), "it holds a value of type array of datetime64"),
    ],
)
def test_other_values_are_refused(value, sentence):
    with pytest.raises(InputError, match=f"NumPy arrays; {sentence}"):
        unpickle(pickle.dumps(value))


@given(
    hnp.arrays(
        st.sampled_from(["<f8", ">f4", "i8", "u1", "?", "<U3", "S2"]),
        hnp.array_shapes(min_dims=0, min_side=0),
    ),
    st.sampled_from([3, 4, 5]),
    st.booleans(),
)
def test_arrays_come_back(array, protocol, fortran):
    array = np.asfortranarray(array) if fortran else array
    content = pickle.dumps([array], protocol=protocol)
    (back,) = unpickle(content)
    # NumPy turns some arrays to the order of bytes of the machine.
    assert back.dtype == pickle.loads(content)[0].dtype
    np.testing.assert_array_equal(back, array)


def test_scalars_and_counters_come_back():
    thing = {
        "s": np.float64(1.5),
        "i": np.int32(3),
        "t": np.str_("x"),
        "d": collections.defaultdict(int, {"a": 1}),
        "o": collections.OrderedDict(x=1),
    }
    back = unpickle(pickle.dumps(thing))
    assert back == thing
    assert type(back["d"]) is dict


@pytest.mark.parametrize("name", [b"numpy.core", b"numpy._core"])
def test_names_of_numpy_1_and_2_are_read(name):
    content = pickle.dumps(np.arange(3.0), protocol=3)
    for own in (b"numpy._core", b"numpy.core"):
        content = content.replace(own, b"CORE")
    np.testing.assert_array_equal(unpickle(content.replace(b"CORE", name)), [0, 1, 2])


class Asks:
    def __init__(self, call, *arguments):
        self.told = (call, arguments)

    def __reduce__(self):
        return self.told


@pytest.mark.parametrize(
    ("call", "arguments", "name"),
    [
        (os.system, ("touch PLACE",), "system"),
        (eval, ("open('PLACE', 'w')",), "eval"),
        (getattr, ("x", "upper"), "getattr"),
        (np.fromfile, ("PLACE",), "fromfile"),
        (np.save, ("PLACE", [1]), "save"),
        (np.load, ("PLACE", None, True), "load"),
        (np.memmap, ("PLACE", "u1", "w+", 0, (4,)), "memmap"),
    ],
)
def test_what_asks_for_more_is_refused_and_nothing_runs(
    tmp_path, call, arguments, name
):
    place = tmp_path / "made"
    arguments = tuple(
        part.replace("PLACE", str(place)) if isinstance(part, str) else part
        for part in arguments
    )
    sentence = (
        r"x\.pkl: must be a pickle of plain containers and NumPy arrays; "
        rf"it asks for [\w.]+\.{name}, which is not loaded\.$"
    )
    for protocol in range(6):
        (tmp_path / "x.pkl").write_bytes(
            pickle.dumps({"tracks": Asks(call, *arguments)}, protocol=protocol)
        )
        with pytest.raises(InputError, match=sentence):
            read_pickle(tmp_path / "x.pkl")
    assert not place.exists()


def test_a_command_refuses_a_forbidden_name_with_exit_code_2(tmp_path):
    record = {"tracks": Asks(os.system, f"touch {tmp_path / 'made'}")}
    (tmp_path / "sd_x.pkl").write_bytes(pickle.dumps(record))
    words = ("build", "--dataset", "scenarionet", "--root", tmp_path)
    modes = ("--mode", "none", "--mode", "reference", "--geometry", "tracks")
    refused = run(*words, *modes, "--out", tmp_path / "cells")
    assert refused.code == 2
    assert refused.err == (
        f"deepval: {tmp_path / 'sd_x.pkl'}: must be a pickle of plain containers and "
        "NumPy arrays; it asks for posix.system, which is not loaded.\n"
    )
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(K\x00tC\x01btR.",
            "asks for os.system",
        ),
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cbuiltins\nint\n(K\x00tC\x01btR.",
            "damaged",
        ),
        (b"(S'ls'\nios\nsystem\n.", "asks for os.system"),
        (b"\x82\x01.", "damaged"),
        (b"P1\n.", "damaged"),
        (b"cbuiltins\nint\n.", "value of type type"),
        (b"cnumpy.core.multiarray\nscalar.attr\n.", "asks for"),
        (b"c_codecs\nencode\n.", "asks for _codecs.encode"),
        (b"ccollections\ndefaultdict\n(}tR}b.", "damaged"),
    ],
)
def test_known_gadgets_are_refused(content, told):
    with pytest.raises(InputError, match=told):
        unpickle(content)


def test_what_nests_without_end_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(InputError, match="must be a pickle"):
        unpickle(pickle.dumps(endless))
    # A tuple in a tuple in a tuple...
    with pytest.raises(InputError, match="must be"):
        unpickle(b"](K\x01" + b"\x85" * 100_000 + b"K\x02e.")


def doubling(times):
    """A list of two references to a list of two references to ...: small as a pickle,
    large as a tree.
    """
    value = ["x"]
    for _ in range(times):
        value = [value, value]
    return pickle.dumps(value)


@memory_is_bounded
def test_memory_is_bounded():
    huge = b"\x80\x02cnumpy\nndarray\n(J\xff\xff\xff\x7ftR."
    with pytest.raises(InputError, match="within 512 MiB of memory"):
        unpickle(huge, Limits(memory_bytes=2**29))
    # A slot of the memory that a pickle has of its values, far away.
    with pytest.raises(InputError, match="within 512 MiB of memory"):
        unpickle(b"\x80\x02K\x01r\xff\xff\xff\xff.", Limits(memory_bytes=2**29))
    assert unpickle(pickle.dumps(1)) == 1


def test_time_and_answer_are_bounded():
    with pytest.raises(InputError, match=r"within 1 s of processor time|of memory"):
        unpickle(doubling(60), Limits(cpu_s=1))
    with pytest.raises(InputError, match="its reader broke off"):
        unpickle(doubling(10), most=1000)
    with pytest.raises(InputError, match="within 0 s; reading it takes longer"):
        unpickle(doubling(60), Limits(wall_s=0))
    assert unpickle(pickle.dumps(1)) == 1


def test_sizes_are_bounded_by_the_file(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="of memory"):
        unpickle(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.")
    huge = pickle.dumps(np.zeros(1, dtype="u1"), protocol=4).replace(
        b"K\x01\x85", b"J\xff\xff\xff\x7f\x85"
    )
    with pytest.raises(InputError, match="damaged"):
        unpickle(huge)
    monkeypatch.setattr(pickles, "LARGEST", 3)
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match="at most 3 bytes"):
        read_pickle(tmp_path / "x.pkl")


@given(st.binary(max_size=40))
def test_damaged_files_are_told(content):
    with contextlib.suppress(InputError):
        unpickle(content)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_flipped_byte_never_does_more_than_raise(place, byte):
    content = bytearray(
        pickle.dumps(
            {"a": np.arange(4.0), "b": [1, (2, "x")], "c": collections.defaultdict(int)}
        )
    )
    content[place % len(content)] = byte
    with contextlib.suppress(InputError):
        unpickle(bytes(content))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"{}",
        json.dumps({"value": {"array": 0}, "arrays": []}).encode(),
        json.dumps({"value": {"array": 0}, "arrays": [["|O8", [1]]]}).encode(),
        json.dumps({"value": {"array": 0}, "arrays": [["<f8", [9]]]}).encode(),
        json.dumps({"value": {"keys": [1], "values": []}, "arrays": []}).encode(),
    ],
)
def test_a_reader_that_lies_is_not_believed(monkeypatch, answer):
    monkeypatch.setattr(pickles.Reader, "answer", lambda *_: answer)
    with pytest.raises(InputError, match="the answer of its reader is malformed"):
        unpickle(pickle.dumps(1))


def test_absent_file_is_told(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_pickle(tmp_path / "none.pkl")
