"""Products of digits against NumPy's, in integers: equal to the last bit."""

import numba
import numpy as np
import pytest

from nearfold.kernels.digits import DEPTH, LANES, block_product, mark_digits, score_digits
from nearfold.neighbors.groups import depth_of, largest_digit


def pack(b):
    """Rows of signed digits as the kernels want them."""
    rows, depth = b.shape
    bytes_ = (b.astype(np.int16) + 128).astype(np.uint8)
    panels = bytes_.reshape(rows // LANES, LANES, depth // DEPTH, DEPTH).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(panels).ravel()


def task(queries, rows, depth, largest=127):
    rng = np.random.default_rng(queries + rows + depth)
    a = rng.integers(-largest, largest + 1, (queries, depth)).astype(np.int8)
    b = rng.integers(-largest, largest + 1, (rows, depth)).astype(np.int8)
    a[0], b[0] = largest, -largest  # the largest sums there are
    a[-1], b[-1] = -largest, largest
    start = rng.integers(-(2**20), 2**20, rows).astype(np.int32)
    scores = start + a.astype(np.int64) @ (b.astype(np.int64) + 128).T
    return a, pack(b), start, scores


SHAPES = [(1, 16, 4), (11, 48, 8), (12, 32, 128), (13, 16, 132), (40, 240, 100), (7, 64, 1028)]


@pytest.mark.parametrize(("queries", "rows", "depth"), SHAPES)
def test_scores(queries, rows, depth):
    a, panels, start, want = task(queries, rows, depth)
    room = np.full((queries, rows + 32), 7, dtype=np.int32)
    score_digits(a, panels, start, np.zeros(queries, np.int32), room, rows)
    np.testing.assert_array_equal(room[:, :rows], want)
    assert (room[:, rows:] == 7).all()


@pytest.mark.parametrize(("queries", "rows", "depth"), SHAPES)
def test_bits(queries, rows, depth):
    a, panels, start, scores = task(queries, rows, depth)
    cuts = np.sort(scores, axis=1)[:, rows // 2].astype(np.int32)  # a score that is there
    bits = np.zeros((queries, rows // LANES + 3), dtype=np.uint16)
    mark_digits(a, panels, start, cuts, bits, rows)
    found = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(found[:, :rows], scores >= cuts[:, None])
    assert not found[:, rows:].any()


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize(("queries", "panels"), [(3, 2), (1, 1)])
def test_every_processor_computes_the_same(queries, panels, portable, marks):
    rows, depth = panels * LANES, 36
    a, packed, start, want = task(queries, rows, depth)
    cuts = want[:, 3].astype(np.int32)
    block = block_product(queries, panels, marks=marks, portable=portable)

    @numba.njit  # noqa: TID251  (a closure: nothing to cache)
    def run(a, packed, start, cuts, out):
        block(
            a.ctypes.data, depth, packed.ctypes.data, LANES * depth, start.ctypes.data,
            cuts.ctypes.data, out.ctypes.data, out.strides[0], depth,
        )  # fmt: skip

    out = np.zeros((queries, panels if marks else rows), np.uint16 if marks else np.int32)
    run(a, packed, start, cuts, out)
    if marks:
        out = np.unpackbits(out.view(np.uint8), axis=1, bitorder="little")
        want = want >= cuts[:, None]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("width", [1, 32, 4000, 5000, 50_000, 10**6])
def test_sums_stay_far_from_the_end_of_int32(width):
    digit = largest_digit(width)
    assert 1 <= digit <= 127
    assert depth_of(width) % DEPTH == 0
    assert digit * (digit + 128) * width <= 2**27 or width == 10**6
    assert digit == 127 or (digit + 1) * (digit + 129) * width > 2**27
