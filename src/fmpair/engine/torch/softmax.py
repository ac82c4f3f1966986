"""The softmax loss over all items or a shared sample, and its gradients, by matrix products.

A row is a query with the items chosen by it. With c the score of its first chosen item, a chunk
stores only E = exp(score - c), which becomes the gradient in place: the softmax of a row is
E / sum(E), so the gradient is E less the chosen items, times one number per row. That number
multiplies the queries and the result instead of the chunk. Scores are never stored. A sample of
items that all rows share is handled alike, with the chosen items beside it.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch

ONES = 8  # extra columns of the queries, so that rows stay aligned
ALIGNED = 64  # rows start at multiples of so many numbers
LARGEST = 80.0  # exponent; keeps values finite until divergence is detected


class Chosen(NamedTuple):
    """The items chosen by the queries of a minibatch, row by row.

    row, item: int64 [events]; weight: float32 [events]; start: int64 [rows + 1], where the events
    of each row start (the last rows may be empty). once: whether no row has an item twice.
    """

    row: torch.Tensor
    item: torch.Tensor
    weight: torch.Tensor
    start: torch.Tensor
    once: bool


class Slopes(NamedTuple):
    """A loss summed over events, and its gradients.

    queries: [rows, factors]; items: [items, factors]; constants: [items].
    """

    loss: torch.Tensor
    queries: torch.Tensor
    items: torch.Tensor | None
    constants: torch.Tensor | None


def softmax_slopes(
    queries: torch.Tensor,
    items: torch.Tensor,
    constants: torch.Tensor,
    chosen: Chosen,
    rows_at_once: int,
    moving: bool = True,
) -> Slopes:
    """Return the loss and its gradients. moving: whether items are trained too."""
    half = number_type(queries.device)
    q, p, factors = queries.to(half), items.to(half), queries.shape[1]
    weight = _weights(chosen)
    first = chosen.item[chosen.start[:-1].clamp(max=len(chosen.item) - 1)]
    offset = (queries * items[first]).sum(1) + constants[first]
    loss, of_queries, of_items = [], [], None
    for part, events in _chunks(chosen, len(q), rows_at_once):
        E, total = exponentials(q[part], p, constants, offset[part])
        scale = weight[part] / total
        row = chosen.row[events] - part.start
        held = _subtract(
            E, row, chosen.item[events], chosen.weight[events] / scale[row], chosen.once
        )
        loss.append((weight[part] * total.log()).sum() - (chosen.weight[events] * held).sum())
        of_queries.append(_product(E, p) * scale[:, None])
        if moving:
            part_slopes = _of_items(E, queries[part], scale)
            of_items = part_slopes if of_items is None else of_items.add_(part_slopes)
    slopes = (None, None) if of_items is None else (of_items[:, :factors], of_items[:, factors])
    return Slopes(torch.stack(loss).sum(), torch.cat(of_queries), *slopes)


class Sample(NamedTuple):
    """Items drawn for all rows of a minibatch, beside the chosen item of each row.

    item: int64 [rows]; own: [rows, factors]; own_constants: [rows]; drawn: int64 [n]; vectors: [n,
    factors]; constants: [n], less the logarithm of the expected count of each.
    """

    item: torch.Tensor
    own: torch.Tensor
    own_constants: torch.Tensor
    drawn: torch.Tensor
    vectors: torch.Tensor
    constants: torch.Tensor


class SampleSlopes(NamedTuple):
    """A loss summed over rows, and its gradients, by the names of `Sample`."""

    loss: torch.Tensor
    queries: torch.Tensor
    own: torch.Tensor
    own_constants: torch.Tensor
    vectors: torch.Tensor
    constants: torch.Tensor


def sample_slopes(
    queries: torch.Tensor, sample: Sample, weight: torch.Tensor, rows_at_once: int
) -> SampleSlopes:
    """Return the loss of choosing each row's item among itself and the drawn others.

    Drawn items that equal the chosen one are left out of its row. weight: float32 [rows].
    """
    half, factors = number_type(queries.device), queries.shape[1]
    q, p = queries.to(half), sample.vectors.to(half)
    offset = (queries * sample.own).sum(1) + sample.own_constants
    loss, of_queries, scales, of_items = [], [], [], None
    for first in range(0, len(q), rows_at_once):
        part = slice(first, first + rows_at_once)
        given = (q[part], p, sample.constants, offset[part], (sample.item[part], sample.drawn))
        E, total = exponentials(*given)
        total += 1  # of the chosen item
        scale = weight[part] / total
        loss.append((weight[part] * total.log()).sum())
        of_queries.append(_product(E, p) * scale[:, None])
        part_slopes = _of_items(E, queries[part], scale)
        of_items = part_slopes if of_items is None else of_items.add_(part_slopes)
        scales.append(scale)
    assert of_items is not None
    less = torch.cat(scales) - weight
    return SampleSlopes(
        torch.stack(loss).sum(),
        torch.cat(of_queries).addcmul_(less[:, None], sample.own),
        less[:, None] * queries,
        less,
        of_items[:, :factors],
        of_items[:, factors],
    )


def _of_items(E: torch.Tensor, queries: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the gradients of items; an extra column of ones sums those of the constants."""
    beside = scale.new_zeros((len(scale), ONES))
    beside[:, 0] = scale
    return _product(E.T, torch.cat([queries * scale[:, None], beside], 1).to(E.dtype))


def _weights(chosen: Chosen) -> torch.Tensor:
    """Return the sum of the event weights of each row: float32 [rows]."""
    total = torch.cat([chosen.weight.new_zeros(1), chosen.weight]).double().cumsum(0)
    return total[chosen.start].diff().float()


def _chunks(chosen: Chosen, rows: int, at_once: int) -> list[tuple[slice, slice]]:
    """Split into (rows, their events) with at most `at_once` rows each."""
    if rows <= at_once:
        return [(slice(0, rows), slice(None))]
    edges = [*range(0, rows, at_once), rows]
    events = chosen.start[edges].tolist()
    rows_of, events_of = (zip(ends[:-1], ends[1:]) for ends in (edges, events))
    return [(slice(*part), slice(*events_part)) for part, events_part in zip(rows_of, events_of)]


def number_type(device: torch.device) -> torch.dtype:
    """Return the type of matrix inputs: bfloat16 on GPUs; sums are always float32."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def exponentials(
    q: torch.Tensor,
    p: torch.Tensor,
    constants: torch.Tensor,
    offset: torch.Tensor,
    sample: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return E = exp(q . p + constants - offset) [rows, items] and row sums float32 [rows].

    sample: an item of each row and the numbers of p's items; E is 0 where they are equal.
    """
    if q.device.type == "cuda" and _has_triton():
        from fmpair.engine.torch.fused import fused_exponentials

        E = empty_chunk(len(q), len(p), q)
        return E, fused_exponentials(q, p, constants, offset, E, sample)
    return plain_exponentials(q, p, constants, offset, sample)


@cache
def _has_triton() -> bool:
    """Return whether Triton is installed; PyTorch for GPUs includes it."""
    return find_spec("triton") is not None


def plain_exponentials(
    q: torch.Tensor,
    p: torch.Tensor,
    constants: torch.Tensor,
    offset: torch.Tensor,
    sample: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute `exponentials` by plain tensor operations."""
    E = empty_chunk(len(q), len(p), q)
    torch.addmm(constants.to(q.dtype), q, p.T, out=E)
    E.sub_(offset.to(q.dtype)[:, None]).clamp_(max=LARGEST).exp_()
    if sample is not None:
        E.masked_fill_(sample[0][:, None] == sample[1], 0.0)
    return E, E.sum(1, dtype=torch.float32)


def empty_chunk(rows: int, items: int, like: torch.Tensor) -> torch.Tensor:
    """Allocate [rows, items] with aligned rows, which matrix units read at full speed."""
    wide = -(-items // ALIGNED) * ALIGNED
    return torch.empty((rows, wide), dtype=like.dtype, device=like.device)[:, :items]


def _subtract(
    E: torch.Tensor, row: torch.Tensor, item: torch.Tensor, amount: torch.Tensor, once: bool
) -> torch.Tensor:
    """Subtract the amounts from the chosen entries; return the logarithms of the old entries."""
    old = E[row, item].float()
    if once:
        E[row, item] = (old - amount).to(E.dtype)
    else:  # adds in sorted order, so that sums are deterministic
        E.index_put_((row, item), -amount.to(E.dtype), accumulate=True)
    return old.clamp(min=1e-37).log()


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, summed in float32."""
    if a.dtype == torch.float32:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32)
