"""Products of vectors of small integers, exact: sixteen rows at a time in SIMD registers.

A row's digits are stored as bytes b + 128, those of sixteen rows side by side, four of each, four
of each, and so on: (panels, depth / 4, 16, 4). A query's digits are signed bytes a, one after the
other. A product is

    score[i, j] = start[j] + sum of a[i, t] (b[j, t] + 128)         in int32, which cannot round

What is kept of it is the score, or one bit: whether it reaches the query's cut.

BLAS has no such product. Where the processor has an instruction for it (AVX512-VNNI) it is several
times as fast as BLAS's in float32; elsewhere it is made of products of 16-bit integers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearfold.kernels.compile import kernel

LANES = 16  # rows of a panel
DEPTH = 4  # digits taken at a time
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_SUMS = ir.VectorType(_INT, LANES)
_PAIRS = ir.VectorType(_SHORT, 2 * LANES)


def _has_vnni(context: Any) -> bool:
    """Whether the code is compiled for a processor with dot products of bytes."""
    return "+avx512vnni" in context.codegen().magic_tuple()[2]


def _spread(builder: Any, value: Any) -> Any:
    """The same int32 in every lane."""
    nothing = ir.Constant(_SUMS, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(_SUMS, [0] * LANES))


def _halves(builder: Any, four: Any, signed: bool) -> tuple[Any, Any]:
    """Bytes 0 and 2 of each int32 as 16-bit integers, and bytes 1 and 3."""
    pairs = builder.bitcast(four, _PAIRS)
    eight = ir.Constant(_PAIRS, [8] * (2 * LANES))
    shift = builder.ashr if signed else builder.lshr
    return shift(builder.shl(pairs, eight), eight), shift(pairs, eight)


def _add_pairs(builder: Any, total: Any, a: Any, b: Any) -> Any:
    """total + the sums of two neighbouring 16-bit products."""
    wide = ir.VectorType(_INT, 2 * LANES)
    product = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    nothing = ir.Constant(wide, ir.Undefined)
    for first in (0, 1):
        lanes = ir.Constant(_SUMS, list(range(first, 2 * LANES, 2)))
        total = builder.add(total, builder.shuffle_vector(product, nothing, lanes))
    return total


def _steps(
    builder: Any, vnni: bool, sums: list[list[Any]], rows: list[Any], four: list[Any]
) -> Any:
    """sums[i][v] + the products of four digits of query i and of the rows of panel v."""
    spread = [_spread(builder, value) for value in four]
    if vnni:
        kind = ir.FunctionType(_SUMS, [_SUMS] * 3)
        name = "llvm.x86.avx512.vpdpbusd.512"
        dot = builder.module.globals.get(name) or ir.Function(builder.module, kind, name=name)
        return [
            [builder.call(dot, [total, row, a]) for total, row in zip(line, rows, strict=True)]
            for line, a in zip(sums, spread, strict=True)
        ]
    split = [_halves(builder, row, signed=False) for row in rows]
    new = []
    for line, a in zip(sums, spread, strict=True):
        even, odd = _halves(builder, a, signed=True)
        pairs = zip(line, split, strict=True)
        new.append([
            _add_pairs(builder, _add_pairs(builder, total, even, low), odd, high)
            for total, (low, high) in pairs
        ])  # fmt: skip
    return new


def _at(builder: Any, base: Any, step: Any, count: int) -> Any:
    """The address `count` steps behind another."""
    step = ir.Constant(_LONG, step) if isinstance(step, int) else step
    return builder.add(base, builder.mul(step, ir.Constant(_LONG, count)))


def _load(builder: Any, address: Any, kind: Any) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def _sums(
    builder: Any, vnni: bool, first: list[list[Any]], query: list[Any], panel: Any, panel_step: Any,
    depth: Any,
) -> list[list[Any]]:  # fmt: skip
    """The loop over the digits, four at a time: first[i][v] + products of query i and panel v."""
    before, loop = builder.block, builder.append_basic_block()
    after = builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    done, place = builder.phi(_LONG), builder.phi(_LONG)
    sums = [[builder.phi(_SUMS) for _ in line] for line in first]
    four = [_load(builder, builder.add(address, done), _INT) for address in query]
    rows = [_load(builder, _at(builder, place, panel_step, v), _SUMS) for v in range(len(first[0]))]
    new = _steps(builder, vnni, sums, rows, four)
    next_done = builder.add(done, ir.Constant(_LONG, DEPTH))
    next_place = builder.add(place, ir.Constant(_LONG, DEPTH * LANES))
    changing = [(done, ir.Constant(_LONG, 0), next_done), (place, panel, next_place)]
    for lines in zip(sums, first, new, strict=True):
        changing += zip(*lines, strict=True)
    for phi, start, following in changing:
        phi.add_incoming(start, before)
        phi.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", next_done, depth), loop, after)
    builder.position_at_end(after)
    return new


def block_product(queries: int, panels: int, *, marks: bool, portable: bool = False) -> Any:
    """A compiled function: the scores of so many queries and panels, or marks, given by addresses.

    (digits of the first query, bytes to the next one, panel, bytes to the next one, start, cuts,
    results, bytes to the results of the next query, depth)
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        digits, digits_step, panel, panel_step, start, cuts, results, results_step, depth = args
        vnni = not portable and _has_vnni(context)
        line = [_load(builder, _at(builder, start, 4 * LANES, v), _SUMS) for v in range(panels)]
        query = [_at(builder, digits, digits_step, i) for i in range(queries)]
        sums = _sums(builder, vnni, [line] * queries, query, panel, panel_step, depth)
        size = LANES // 8 if marks else 4 * LANES
        for i in range(queries):
            out = _at(builder, results, results_step, i)
            cut = (
                _spread(builder, _load(builder, _at(builder, cuts, 4, i), _INT)) if marks else None
            )
            for v, value in enumerate(sums[i]):
                if marks:
                    value = builder.bitcast(builder.icmp_signed(">=", value, cut), _SHORT)
                address = builder.inttoptr(_at(builder, out, size, v), value.type.as_pointer())
                builder.store(value, address).align = 1
        return context.get_dummy_value()

    def product(
        typing: Any, digits: Any, digits_step: Any, panel: Any, panel_step: Any, start: Any,
        cuts: Any, results: Any, results_step: Any, depth: Any,
    ) -> Any:  # fmt: skip
        return types.void(*[types.intp] * 9), write

    return intrinsic(product)


def _over_blocks(queries: int, marks: bool) -> Any:
    """A kernel that goes over all queries, so many at a time, and all panels, two at a time."""
    block, strip, pair, single = (
        block_product(many, panels, marks=marks)
        for many, panels in ((queries, 2), (queries, 1), (1, 2), (1, 1))
    )
    size = LANES // 8 if marks else 4 * LANES  # bytes of the results of a panel

    def multiply(digits: Any, panels: Any, start: Any, cuts: Any, results: Any, rows: Any) -> None:
        depth, step = digits.shape[1], results.strides[0]
        whole = digits.shape[0] // queries * queries
        for p in range(0, rows // LANES, 2):
            panel = panels.ctypes.data + p * LANES * depth
            first = start.ctypes.data + 4 * LANES * p
            two = (p + 2) * LANES <= rows
            for i in range(0, whole, queries):
                query, cut = digits.ctypes.data + i * depth, cuts.ctypes.data + 4 * i
                out = results.ctypes.data + i * step + p * size
                if two:
                    block(query, depth, panel, LANES * depth, first, cut, out, step, depth)
                else:
                    strip(query, depth, panel, LANES * depth, first, cut, out, step, depth)
            for i in range(whole, digits.shape[0]):
                query, cut = digits.ctypes.data + i * depth, cuts.ctypes.data + 4 * i
                out = results.ctypes.data + i * step + p * size
                if two:
                    pair(query, depth, panel, LANES * depth, first, cut, out, step, depth)
                else:
                    single(query, depth, panel, LANES * depth, first, cut, out, step, depth)

    return kernel(multiply)


# (digits (queries, depth), panels, start (rows,), cuts (queries,), results, rows): the results are
# int32 scores (queries, rows), or bits in uint16 (queries, at least rows / 16). The sums of twelve
# queries and two panels fit into the registers; scores are wanted of few queries only.
score_digits = _over_blocks(2, marks=False)
mark_digits = _over_blocks(12, marks=True)
