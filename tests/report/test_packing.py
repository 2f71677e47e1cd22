from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst
from unpacking import read_bytes, read_codes, read_floats

from nearfold.errors import InputError
from nearfold.report.packing import (
    pack_floats,
    pack_integers,
    pack_points,
    pack_texts,
    packed_size,
)


@settings(deadline=None)
@given(
    nst.arrays(np.int64, st.integers(0, 40), elements=st.integers(-1, 2**32 - 2)),
)
def test_integers_come_back(values):
    packed = pack_integers(values)
    codes = read_codes(packed)
    back = np.where(codes == packed["missing"], -1, codes)
    np.testing.assert_array_equal(back, values)


@pytest.mark.parametrize(
    ("largest", "kind"),
    [(255, "u1"), (256, "u2"), (65535, "u2"), (65536, "u4"), (2**32 - 2, "u4")],
)
def test_integers_take_the_fewest_bytes(largest, kind):
    assert pack_integers([0, largest])["type"] == kind


def test_a_missing_code_never_hides_a_value():
    packed = pack_integers([-1, 0, 255])
    assert packed["missing"] == 256
    assert packed["type"] == "u2"
    assert pack_integers([0, 255])["missing"] is None


@pytest.mark.parametrize("values", [[-2], [2**32 - 1], [0.5], ["a"]])
def test_integers_refuse_what_they_cannot_hold(values):
    with pytest.raises(InputError, match="pack_integers takes"):
        pack_integers(values)


def test_integers_keep_their_shape_and_compress():
    rows = np.arange(1000).reshape(200, 5)
    packed = pack_integers(rows)
    assert packed["shape"] == [200, 5]
    np.testing.assert_array_equal(read_codes(packed), rows)
    assert packed["planes"]  # high bytes repeat: apart they are shorter
    assert packed_size(pack_integers(np.zeros(10_000, int))) < 200


@settings(deadline=None)
@given(
    nst.arrays(
        np.float64,
        st.integers(1, 30),
        elements=st.floats(allow_nan=True, allow_infinity=True),
    )
)
def test_floats_come_back_within_half_a_step(values):
    packed = pack_floats(values)
    back = read_floats(packed)
    finite = np.isfinite(values)
    np.testing.assert_array_equal(np.isnan(back), ~finite)
    if finite.any():
        low, high = values[finite].min(), values[finite].max()
        step = high / (packed["levels"] - 1) - low / (packed["levels"] - 1)
        rounding = 4 * np.finfo(float).eps * np.abs(values[finite]).max() + np.finfo(float).tiny
        assert (np.abs(back[finite] - values[finite]) <= 0.5001 * step + rounding).all()


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([3, 70, -5], 0),
        ([5.1, 3.5, -1.4], 1),
        (np.array([5.1, 3.5, 0.2], np.float32), 1),
        ([19.99, 0.01, 5.0], 2),
        ([0.0, 1e9 / 3, 7.0], None),
        ([0.0, 70_000.0], None),  # more steps than codes
    ],
)
def test_numbers_with_few_decimals_are_exact(values, decimals):
    packed = pack_floats(values)
    assert packed["decimals"] == decimals
    if decimals is not None:
        exact = [float(str(value)) for value in np.asarray(values)]
        np.testing.assert_array_equal(read_floats(packed), exact)


def test_floats_of_any_size_and_empty_columns():
    X = np.array([[1.7e308, np.nan, 1.0], [-1.7e308, np.inf, 2.0]])
    back = read_floats(pack_floats(X))
    np.testing.assert_allclose(back[:, [0, 2]], X[:, [0, 2]], rtol=1e-4)
    assert np.isnan(back[:, 1]).all()
    assert pack_floats(np.array([[3.0, np.nan], [4.0, np.nan]]))["decimals"] == 0


def test_floats_scale_each_column_by_itself():
    X = np.array([[0.0, 1e-9], [np.pi, 2e-9], [1.0, np.e * 1e-9]])
    np.testing.assert_allclose(read_floats(pack_floats(X)), X, rtol=1e-4)


def test_few_levels_take_one_byte():
    packed = pack_floats(np.linspace(0, np.pi, 1000), levels=255)
    assert packed["type"] == "u1"
    assert np.abs(read_floats(packed) - np.linspace(0, np.pi, 1000)).max() <= np.pi / 254 / 2 * 1.01
    with pytest.raises(InputError, match="levels=1:"):
        pack_floats([1.0], levels=1)


def test_points_keep_the_shape_of_the_picture():
    Z = np.array([[0.0, 0.0], [10.0, 1.0], [5.0, 0.3]])
    packed = pack_points(Z)
    width = np.subtract(packed["high"], packed["low"])
    assert width[0] == pytest.approx(width[1])
    np.testing.assert_allclose(read_floats(packed), Z, atol=10 / 65534)


def test_points_of_one_axis_lie_on_a_line():
    back = read_floats(pack_points(np.array([[1.0], [3.0], [2.0]])))
    np.testing.assert_allclose(back, [[1, 0], [3, 0], [2, 0]], atol=1e-4)


@pytest.mark.parametrize(
    "Z",
    [
        np.array([[1e308, -1e308], [-1e308, 1e308]]),
        np.array([[1e-300, 0.0], [2e-300, 0.0]]),
        np.full((3, 2), 7.0),
        np.array([[np.nan, 1.0], [2.0, 3.0], [np.inf, 0.0]]),
    ],
)
def test_points_of_any_size(Z):
    packed = pack_points(Z)
    json.dumps(packed, allow_nan=False)
    back = read_floats(packed)
    finite = np.isfinite(Z).all(axis=1)
    scale = np.abs(Z[finite]).max() or 1.0
    np.testing.assert_allclose(back[finite] / scale, Z[finite] / scale, atol=1e-4)
    assert np.isnan(back[~finite]).any(axis=1).all()


def test_points_refuse_other_shapes():
    with pytest.raises(InputError, match=r"shape \(n, 2\)"):
        pack_points(np.zeros((4, 3)))


@pytest.mark.parametrize("values", [["row-0", "row-12"], ["7", "5"], ["0", "x"], ["01", "2"], []])
def test_texts_come_back(values):
    packed = pack_texts(values)
    if "numbers" in packed:
        back = [packed["prefix"] + str(code) for code in read_codes(packed["numbers"])]
    else:
        back = json.loads(zlib.decompress(read_bytes(packed["texts"]), -15))
    assert back == values


def test_size_is_what_it_takes_in_the_page():
    assert packed_size({"a": "é"}) == len('{"a":"é"}'.encode())
