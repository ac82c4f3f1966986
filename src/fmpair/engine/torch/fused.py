"""A Triton kernel for GPUs: a matrix product whose tiles are exponentiated before they are stored.

Only `softmax` imports this module, and only where Triton is installed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# The fastest of those tried on an H200, for 64 and 256 factors. They are not tuned at run time:
# other tiles add up in another order, and results would differ from run to run.
ROWS, ITEMS, DEPTH, WARPS, STAGES = 128, 128, 64, 8, 3
NEAR = 8  # tiles of rows processed together, so that items stay in the cache


# One kernel for all numbers of rows: a fit would compile another one for its last minibatch.
@triton.jit(do_not_specialize=["rows", "stripes"])
def _exponentials(
    q, p, constant, offset, chosen, number_of, out, total, rows, items, wide, stripes,
    factors: tl.constexpr, even: tl.constexpr, drawn: tl.constexpr, NEAR: tl.constexpr,
    ROWS: tl.constexpr, ITEMS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """out[r, i] = exp(q[r] . p[i] + constant[i] - offset[r]); total[r, tile]: sums by tile.

    drawn: items are a sample with numbers number_of[i], and 0 stands for that of chosen[r].
    """
    number = tl.program_id(0)
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(items, ITEMS)
    group = number // (NEAR * across)
    height = min(down - group * NEAR, NEAR)
    tile_row = group * NEAR + (number % (NEAR * across)) % height
    tile_item = (number % (NEAR * across)) // height
    row = tile_row * ROWS + tl.arange(0, ROWS)
    item = tile_item * ITEMS + tl.arange(0, ITEMS)
    safe_row, safe_item = row % rows, item % items
    depth = tl.arange(0, DEPTH)
    q_at = q + safe_row[:, None] * factors + depth[None, :]
    p_at = p + safe_item[None, :] * factors + depth[:, None]
    score = tl.zeros((ROWS, ITEMS), tl.float32)
    for k in range(0, factors, DEPTH):
        if even:
            a = tl.load(q_at + k)
            b = tl.load(p_at + k)
        else:
            inside = depth + k < factors
            a = tl.load(q_at + k, mask=inside[None, :], other=0.0)
            b = tl.load(p_at + k, mask=inside[:, None], other=0.0)
        score = tl.dot(a, b, score)
    score += tl.load(constant + safe_item)[None, :] - tl.load(offset + safe_row)[:, None]
    value = tl.exp(tl.minimum(score, 80.0))
    value = tl.where(item[None, :] < items, value, 0.0)
    if drawn:
        own, others = tl.load(chosen + safe_row), tl.load(number_of + safe_item)
        value = tl.where(own[:, None] == others[None, :], 0.0, value)
    tl.store(total + row * stripes + tile_item, tl.sum(value, 1), mask=row < rows)
    at = out + row[:, None].to(tl.int64) * wide + item[None, :]
    # Up to the end of the padded row: a bound that is a multiple of 16 stores many numbers at once.
    inner = (row < rows)[:, None] & (item < wide)[None, :]
    tl.store(at, value.to(out.dtype.element_ty), mask=inner)


def fused_exponentials(
    q: torch.Tensor,
    p: torch.Tensor,
    constants: torch.Tensor,
    offset: torch.Tensor,
    E: torch.Tensor,
    sample: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Fill E [rows, items] with exp(q . p + constants - offset); return row sums float32 [rows].

    E is a part of `softmax.empty_chunk`, whose padding is overwritten.
    sample: see `softmax.exponentials`.
    """
    (rows, factors), items = q.shape, len(p)
    down, across = triton.cdiv(rows, ROWS), triton.cdiv(items, ITEMS)
    total = torch.empty((rows, across), dtype=torch.float32, device=q.device)
    chosen, number_of = (offset, constants) if sample is None else sample
    _exponentials[(down * across,)](
        q.contiguous(), p.contiguous(), constants, offset, chosen, number_of, E, total,
        rows, items, E.stride(0), across, factors=factors, even=factors % DEPTH == 0,
        drawn=sample is not None, NEAR=NEAR, ROWS=ROWS, ITEMS=ITEMS, DEPTH=DEPTH,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return total.sum(1)
