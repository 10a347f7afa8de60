"""Triton kernels of a decoding step: a layer is ``linear``, ``turn``, ``attend`` and three times
``linear``.

A row's result does not depend on the rows beside it: a tile always has 16 rows, and the order of
sums follows from the sizes of a layer and from positions. Products and attention read float16 or
bfloat16 (in Triton's interpreter also float32), sum in float32 and round once, to what they
write. Sizes: n rows, which are tokens, d a head; tensors are contiguous, indices int64.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import constexpr, tensor

COLUMNS, STEP = constexpr(32), constexpr(128)  # of N and of K, in a tile of weights
HEADS, SPAN = constexpr(8), constexpr(128)  # of a program: of ``turn``; positions, of ``attend``
NOWHERE = constexpr(-1e30)  # score of a position that is not attended to


@triton.jit
def finished(
    total: tensor, second: tensor, bias: tensor | None, cols: tensor, N: int, gated: constexpr
) -> tensor:
    """Return ``total`` plus the bias of its columns, times what gates it: see ``linear``."""
    if bias is not None:
        total += tl.load(bias + cols, mask=cols < N, other=0.0)
        if gated:
            second += tl.load(bias + N + cols, mask=cols < N, other=0.0)
    return total / (1 + tl.exp(-total)) * second if gated else total


@triton.jit(do_not_specialize=["n"])
def linear(
    x: tensor,
    gain: tensor | None,
    weight: tensor,
    bias: tensor | None,
    out: tensor,
    parts: tensor | None,
    counts: tensor,
    n: int,
    N: int,
    K: int,
    span: int,
    eps: float,
    gated: constexpr,
    added: constexpr,
) -> None:
    """Write to ``out`` [n, N] the product of x [n, K] and ``weight`` [N, K], plus ``bias`` [N].

    With ``gain`` [K] x is normed to root mean square 1 and multiplied by it: the products' sums are
    divided, so x · gain must be within the dtype. ``gated``: of a weight [2N, K] the first half's
    product through SiLU times the second's. ``added``: plus what ``out`` held. A program sums
    ``span`` of K; several programs of a tile leave their sums in ``parts`` [programs, n, N], and
    the last one of them, by the tile's number in ``counts``, which is 0 before and after, adds them
    up in order; then there is no ``gain`` and nothing is gated.
    """
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(2) * span
    total = tl.full((16, COLUMNS), 0.0, tl.float32)
    second, squares = total, tl.full((16,), 0.0, tl.float32)
    for k in range(first, tl.minimum(first + span, K), STEP):
        ks = k + tl.arange(0, STEP)
        a = tl.load(x + rows * K + ks, mask=(rows < n) & (ks < K), other=0.0)
        if gain is not None:
            wide = a.to(tl.float32)
            squares += tl.sum(wide * wide, 1)
            a = (wide * tl.load(gain + ks, mask=ks < K, other=0.0)).to(a.dtype)
        at = weight + cols.to(tl.int64) * K + ks[:, None]
        inside = (cols < N) & (ks < K)[:, None]
        total = tl.dot(a, tl.load(at, mask=inside, other=0.0), total)
        if gated:
            second = tl.dot(a, tl.load(at + N * K, mask=inside, other=0.0), second)
    at, inside = rows * N + cols, (rows < n) & (cols < N)
    if parts is not None:
        tl.store(parts + tl.program_id(2) * n * N + at, total, mask=inside)
        tl.debug_barrier()
        count = counts + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(count, 1) < tl.num_programs(2) - 1:
            return
        total = tl.full((16, COLUMNS), 0.0, tl.float32)
        for part in range(tl.num_programs(2)):
            total += tl.load(parts + part * n * N + at, mask=inside, other=0.0)
        tl.store(count, 0)
    if gain is not None:
        scale = tl.rsqrt(squares / K + eps)[:, None]
        total, second = total * scale, second * scale
    total = finished(total, second, bias, cols, N, gated)
    if added:
        total += tl.load(out + at, mask=inside, other=0.0)
    tl.store(out + at, total, mask=inside)


@triton.jit
def turn(
    qkv: tensor,
    gain: tensor | None,
    cos: tensor,
    sin: tensor,
    positions: tensor,
    entries: tensor,
    cache: tensor,
    length: int,
    eps: float,
    queries: constexpr,
    keys: constexpr,
    d: constexpr,
    turned: constexpr,
    width: constexpr,
) -> None:
    """Turn the queries of qkv [n, queries + 2 keys, d] in place, its keys and values into ``cache``
    [2 keys, length, d] at ``entries`` [n].

    A query or key is normed, times ``gain`` [queries + keys, d], where there is one; of its first
    ``turned`` numbers each is multiplied by ``cos``, and the one half of them away by ``sin``, both
    [.., turned], at ``positions`` [n]. A program has some heads of a token; ``width``: the power of
    two from d on.
    """
    token, head = tl.program_id(0), tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    at = tl.arange(0, width)
    other = tl.where(at < turned, (at + turned // 2) % turned, at)
    inside = (head < queries + 2 * keys) & (at < d)
    rotates = inside & (head < queries + keys)
    row = qkv + (token * (queries + 2 * keys) + head) * d
    plain = tl.load(row + at, mask=inside, other=0.0)
    a, b = plain.to(tl.float32), tl.load(row + other, mask=rotates, other=0.0).to(tl.float32)
    if gain is not None:
        scale = tl.rsqrt(tl.sum(a * a, 1) / d + eps)[:, None]
        a *= scale * tl.load(gain + head * d + at, mask=rotates, other=0.0)
        b *= scale * tl.load(gain + head * d + other, mask=rotates, other=0.0)
    angle = tl.load(positions + token) * turned + at
    a *= tl.load(cos + angle, mask=at < turned, other=1.0)
    a += b * tl.load(sin + angle, mask=at < turned, other=0.0)
    result = tl.where(rotates, a.to(plain.dtype), plain)
    tl.debug_barrier()  # every thread has read what it needs
    tl.store(row + at, result, mask=inside & (head < queries))
    entry = (head - queries) * length + tl.load(entries + token)
    tl.store(cache + entry * d + at, result, mask=inside & (head >= queries))


@triton.jit
def weighed(
    q: tensor,
    cache: tensor,
    entry: tensor,
    values: int,
    seen: tensor,
    at: tensor,
    d: constexpr,
    scale: float,
) -> tuple[tensor, tensor, tensor]:
    """Return the highest score of queries q with the keys at ``entry`` that are ``seen``, the sum of
    weights relative to it, and the values, ``values`` entries behind the keys, by weight."""
    k = tl.load(cache + entry * d + at[:, None], mask=seen & (at < d)[:, None], other=0.0)
    value = cache + (values + entry)[:, None] * d + at
    v = tl.load(value, mask=seen[:, None] & (at < d), other=0.0)
    scores = tl.where(seen, tl.dot(q, k) * scale, NOWHERE)
    top = tl.max(scores, 1)
    weights = tl.exp(scores - top[:, None])
    return top, tl.sum(weights, 1), tl.dot(weights.to(v.dtype), v)


@triton.jit
def together(
    parts: tensor,
    sums: tensor,
    pair: int,
    low: int,
    high: int,
    group: constexpr,
    g: tensor,
    at: tensor,
    d: constexpr,
    rows: constexpr,
    width: constexpr,
) -> tuple[tensor, tensor]:
    """Add up what the programs ``low`` to ``high`` of a ``pair`` of token and key head left, in order:
    values by weight and the sum of weights, both relative to the highest score."""
    inside, mine = g < group, (g < group)[:, None] & (at < d)
    top, mass = tl.full((rows,), NOWHERE, tl.float32), tl.full((rows,), 0.0, tl.float32)
    mixed = tl.full((rows, width), 0.0, tl.float32)
    for each in range(low, high + 1):
        here = (pair * tl.num_programs(2) + each) * group + g
        its_top = tl.load(sums + 2 * here, mask=inside, other=0.0)
        higher = tl.maximum(top, its_top)
        fade, share = tl.exp(top - higher), tl.exp(its_top - higher)
        its_mass = tl.load(sums + 2 * here + 1, mask=inside, other=1.0)
        its_mixed = tl.load(parts + here[:, None] * d + at, mask=mine, other=0.0)
        mass = mass * fade + its_mass * share
        mixed = mixed * fade[:, None] + its_mixed * share[:, None]
        top = higher
    return mixed, mass


@triton.jit(do_not_specialize=["reach"])
def attend(
    qkv: tensor,
    cache: tensor,
    positions: tensor,
    roots: tensor,
    bases: tensor,
    places: tensor,
    out: tensor,
    parts: tensor,
    sums: tensor,
    counts: tensor,
    reach: int,
    length: int,
    window: int,
    scale: float,
    queries: constexpr,
    keys: constexpr,
    d: constexpr,
    rows: constexpr,
    width: constexpr,
) -> None:
    """Write to ``out`` [n, queries, d] what the queries of qkv, as ``turn`` leaves it, attend to.

    A token attends to the last ``window`` positions up to its own in ``positions`` [n]. Those
    before its root, ``roots`` [n], stand there in ``cache`` from ``bases`` [n] on; the others,
    counted from the root, at ``places`` [n, reach] after it. A program reads a span of positions for
    the queries of a key head, and leaves their values by weight in ``parts`` [n, keys, programs,
    group, d], the rest in ``sums`` [.., group, 2]; the last one of them adds up. ``counts`` [n, keys]
    as in ``linear``. ``rows``, ``width``: powers of two from 16 and the group, and from d on.
    """
    token, key, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    last = tl.load(positions + token).to(tl.int32)
    first = tl.maximum(last - window + 1, 0)
    low, high = first // SPAN, last // SPAN
    if (part < low) | (part > high):
        return
    root, base = tl.load(roots + token), tl.load(bases + token)
    group: constexpr = queries // keys
    g, at = tl.arange(0, rows), tl.arange(0, width)
    mine = (g < group)[:, None] & (at < d)
    query = qkv + (token * (queries + 2 * keys) + key * group + g)[:, None] * d + at
    q = tl.load(query, mask=mine, other=0.0)
    position = part * SPAN + tl.arange(0, SPAN)
    seen = (position >= first) & (position <= last)
    node = position - root
    place = tl.load(places + token * reach + node, mask=seen & (node >= 0), other=0)
    entry = key * length + base + tl.where(node < 0, position, root + place)
    top, mass, mixed = weighed(q, cache, entry, keys * length, seen, at, d, scale)
    pair = token * keys + key
    here = (pair * tl.num_programs(2) + part) * group + g
    tl.store(parts + here[:, None] * d + at, mixed, mask=mine)
    tl.store(sums + 2 * here, top, mask=g < group)
    tl.store(sums + 2 * here + 1, mass, mask=g < group)
    tl.debug_barrier()
    if tl.atomic_add(counts + pair, 1) < high - low:
        return
    mixed, mass = together(parts, sums, pair, low, high, group, g, at, d, rows, width)
    tl.store(counts + pair, 0)
    result = out + (token * queries + key * group + g)[:, None] * d + at
    tl.store(result, mixed / mass[:, None], mask=mine)
