"""Exact softmax over all items: its loss and its gradients, by matrix products in chunks of rows.

A row is a query and the items that were chosen by it. With c the score of its first item, a chunk
keeps E = exp(score - c) alone, which becomes the gradient in place: a row's softmax is E / sum(E),
so to subtract the chosen items and to multiply by one number a row gives the slopes, and that
number goes into the queries and the result, not through the chunk. Scores are never written whole.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import torch

ONES = 8  # columns beside the queries, so that rows stay aligned
ALIGNED = 64  # numbers between the addresses of rows
LARGEST = 80.0  # of an exponent, so that nothing overflows before a run is seen to diverge


class Chosen(NamedTuple):
    """The items that were chosen by the queries of a minibatch, row by row.

    row, item: int64 [events]; weight: float32 [events]. start: int64 [rows + 1], the events of each
    row, of which the last may have none. once: whether no row has an item twice.
    """

    row: torch.Tensor
    item: torch.Tensor
    weight: torch.Tensor
    start: torch.Tensor
    once: bool


class Slopes(NamedTuple):
    """A loss (a sum over events) and its gradients of queries, items and constants.

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
    """The loss of rows and its gradients. moving: whether items are learned too."""
    half = number_type(queries.device)
    q, p, factors = queries.to(half), items.to(half), queries.shape[1]
    weight = _weights(chosen)
    first = chosen.item[chosen.start[:-1].clamp(max=len(chosen.item) - 1)]
    offset = (queries * items[first]).sum(1) + constants[first]
    loss, of_queries, of_items = [], [], None
    for part, own in _chunks(chosen, len(q), rows_at_once):
        E, total = exponentials(q[part], p, constants, offset[part])
        scale = weight[part] / total
        row = chosen.row[own] - part.start
        held = _subtract(E, row, chosen.item[own], chosen.weight[own] / scale[row], chosen.once)
        loss.append((weight[part] * total.log()).sum() - (chosen.weight[own] * held).sum())
        of_queries.append(_product(E, p) * scale[:, None])
        if moving:  # a column of ones beside the queries sums what constants are due
            beside = scale.new_zeros((len(scale), ONES))
            beside[:, 0] = scale
            wide = torch.cat([queries[part] * scale[:, None], beside], 1).to(half)
            found = _product(E.T, wide)
            of_items = found if of_items is None else of_items.add_(found)
    slopes = (None, None) if of_items is None else (of_items[:, :factors], of_items[:, factors])
    return Slopes(torch.stack(loss).sum(), torch.cat(of_queries), *slopes)


def _weights(chosen: Chosen) -> torch.Tensor:
    """float32 [rows]: the sum of the weights of each row's events."""
    total = torch.cat([chosen.weight.new_zeros(1), chosen.weight]).double().cumsum(0)
    return total[chosen.start].diff().float()


def _chunks(chosen: Chosen, rows: int, at_once: int) -> list[tuple[slice, slice]]:
    """(rows, their events), so many rows at once."""
    if rows <= at_once:
        return [(slice(0, rows), slice(None))]
    edges = [*range(0, rows, at_once), rows]
    events = chosen.start[edges].tolist()
    rows_of, events_of = (zip(ends[:-1], ends[1:]) for ends in (edges, events))
    return [(slice(*part), slice(*own)) for part, own in zip(rows_of, events_of)]


def number_type(device: torch.device) -> torch.dtype:
    """Of factors of products: short numbers where there are units for them; sums are float32."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def exponentials(
    q: torch.Tensor, p: torch.Tensor, constants: torch.Tensor, offset: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(E = exp(q . p + constants - offset) [rows, items], its sums float32 [rows])."""
    if q.device.type == "cuda" and (fused := _fused()) is not None:
        return fused.exponentials(q, p, constants, offset)
    return plain_exponentials(q, p, constants, offset)


@cache
def _fused() -> ModuleType | None:
    """The kernel of Triton, where that is installed: it comes with PyTorch for GPUs."""
    return import_module("fmpair.engine.torch.fused") if find_spec("triton") else None


def plain_exponentials(
    q: torch.Tensor, p: torch.Tensor, constants: torch.Tensor, offset: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by one operation after the other."""
    E = empty_chunk(len(q), len(p), q)
    torch.addmm(constants.to(q.dtype), q, p.T, out=E)
    E.sub_(offset.to(q.dtype)[:, None]).clamp_(max=LARGEST).exp_()
    return E, E.sum(1, dtype=torch.float32)


def empty_chunk(rows: int, items: int, like: torch.Tensor) -> torch.Tensor:
    """[rows, items], each row at an address that matrix units read at full speed."""
    wide = -(-items // ALIGNED) * ALIGNED
    return torch.empty((rows, wide), dtype=like.dtype, device=like.device)[:, :items]


def _subtract(
    E: torch.Tensor, row: torch.Tensor, item: torch.Tensor, amount: torch.Tensor, once: bool
) -> torch.Tensor:
    """Take the amount off the chosen items' places; the logarithms of what stood there."""
    found = E[row, item].float()
    if once:
        E[row, item] = (found - amount).to(E.dtype)
    else:  # adds by sorting, so that the sums have the same bits every time
        E.index_put_((row, item), -amount.to(E.dtype), accumulate=True)
    return found.clamp(min=1e-37).log()


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with sums and result in float32."""
    if a.dtype == torch.float32:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32)
