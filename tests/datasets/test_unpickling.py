"""A pickle is read without running anything: plain containers and NumPy arrays, and a
sentence for the rest.
"""

import collections
import contextlib
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deepval.datasets.logs import unpickling
from deepval.datasets.logs.unpickling import read_pickle, unpickle
from deepval.errors import InputError

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.tuples(inner, inner)
        | st.sets(st.integers())
    ),
    max_leaves=15,
)


@given(PLAIN, st.sampled_from([4, 5]))
def test_plain_containers_come_back(thing, protocol):
    assert unpickle(pickle.dumps(thing, protocol=protocol)) == thing


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
    back, again = unpickle(pickle.dumps([array, array], protocol=protocol))
    assert back is again
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_scalars_and_counters_come_back():
    counted = collections.defaultdict(int, {"a": 1})
    thing = {
        "s": np.float64(1.5),
        "i": np.int32(3),
        "d": counted,
        "o": collections.OrderedDict(x=1),
        "f": {1, 2},
    }
    back = unpickle(pickle.dumps(thing))
    assert back == thing
    assert type(back["d"]) is dict


def test_numpy_1_names_are_read():
    content = pickle.dumps(np.arange(3.0), protocol=3).replace(
        b"numpy._core", b"numpy.core"
    )
    np.testing.assert_array_equal(unpickle(content), [0, 1, 2])


class Asks:
    def __init__(self, call, *arguments):
        self.told = (call, arguments)

    def __reduce__(self):
        return self.told


@pytest.mark.parametrize(
    ("call", "arguments", "name"),
    [
        (os.system, ("touch PLACE",), "system"),
        (eval, ("open('PLACE', 'w')",), "builtins.eval"),
        (getattr, ("x", "upper"), "builtins.getattr"),
        (np.fromfile, ("PLACE",), "numpy.fromfile"),
        (np.save, ("PLACE", [1]), "numpy.save"),
        (np.load, ("PLACE", None, True), "numpy.load"),
        (np.memmap, ("PLACE", "u1", "w+", 0, (4,)), "numpy.memmap"),
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
    for protocol in range(6):
        (tmp_path / "x.pkl").write_bytes(
            pickle.dumps({"tracks": Asks(call, *arguments)}, protocol=protocol)
        )
        with pytest.raises(
            InputError,
            match=(
                r"x\.pkl: must be a pickle of "
                rf"plain .* it asks for .*{name.split('.')[-1]}"
            ),
        ):
            read_pickle(tmp_path / "x.pkl")
    assert not place.exists()


def test_known_gadgets_are_refused(tmp_path):
    for content, told in [
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(K\x00tC\x01btR.",
            "asks for os.system",
        ),
        (
            b"cnumpy.core.multiarray\n_reconstruct\n(cbuiltins\nint\n(K\x00tC\x01btR.",
            "class of its own",
        ),
        (b"(S'ls'\nios\nsystem\n.", "STRING"),
        (b"\x82\x01.", "EXT1"),
        (b"P1\n.", "PERSID"),
        (b"cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"cnumpy\ndtype\n(X\x02\x00\x00\x00O8K\x00K\x01tR.", "element type O8"),
        (b"ccollections\ndefaultdict\n(}tR}b.", "state of dict"),
        (b"]cbuiltins\nint\na.", "where a value is needed"),
        (b"cbuiltins\nint\n(tR.", "calls builtins.int"),
    ]:
        with pytest.raises(InputError, match=told):
            unpickle(content)
    with pytest.raises(InputError, match="element type"):
        unpickle(pickle.dumps(np.array([Asks(os.system, "x")], dtype=object)))


def test_what_would_grow_or_sink_is_refused():
    # A tuple in a tuple in a tuple...: hashing it as a key would overflow the stack.
    with pytest.raises(InputError, match="no plain value"):
        unpickle(b"}(K\x01" + b"\x85" * 100_000 + b"K\x02u.")
    assert len(unpickle(b"](K\x01" + b"\x85" * 1000 + b"K\x02e.")) == 2
    # Sets made from a list at once, and bytes from text: files of older writings use
    # them, and they could grow.
    for name in ("builtins\nset", "_codecs\nencode"):
        with pytest.raises(InputError, match="asks for"):
            unpickle(f"c{name}\n(]tR.".encode())
    raw = np.zeros(1000).tobytes()
    one, other = unpickle(
        pickle.dumps([np.frombuffer(raw), np.frombuffer(raw)], protocol=4)
    )
    assert one.base is not None
    assert other.base is not None


def test_sizes_are_bounded_by_the_file(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="damaged"):
        unpickle(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.")
    huge = pickle.dumps(np.zeros(1, dtype="u1"), protocol=4).replace(
        b"K\x01\x85", b"J\xff\xff\xff\x7f\x85"
    )
    with pytest.raises(InputError, match="shape"):
        unpickle(huge)
    assert unpickle(b"\x80\x02K\x01r\xff\xff\xff\xff.") == 1
    monkeypatch.setattr(unpickling, "MOST_BYTES", 3)
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


def test_absent_file_is_told(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_pickle(tmp_path / "none.pkl")
