"""Exact softmax over all items: its loss and its gradients, by matrix products in chunks of rows.

A row is a query and the items that were chosen by it. With c the score of its first item, a chunk
keeps E = exp(score - c) alone, which becomes the gradient in place: a row's softmax is E / sum(E), so
to subtract the chosen items and to multiply by one number a row gives the slopes, and that number
goes into the queries and the result, not through the chunk. Logits are never written whole.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch

ALIGNED = 64  # numbers between the addresses of rows
LARGEST = 80.0  # of an exponent, so that nothing overflows before a run is seen to diverge


class Chosen(NamedTuple):
    """The items that were chosen by the queries of a minibatch, row by row.

    row, item: int64 [events]; weight: float32 [events]. start: int64 [rows + 1], the events of each
    row. once: whether no row has an item twice.
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
    q, p = queries.to(half), items.to(half)
    first = chosen.item[chosen.start[:-1]]
    offset = (q.float() * p[first].float()).sum(1) + constants[first]
    weight = torch.segment_reduce(chosen.weight, "sum", offsets=chosen.start)
    of_queries = torch.empty_like(queries)
    of_items = torch.zeros_like(items) if moving else None
    of_constants = torch.zeros_like(constants) if moving else None
    loss = queries.new_zeros(())
    edges = list(range(0, len(q), rows_at_once))
    events = chosen.start[edges].tolist() + [len(chosen.row)] if len(edges) > 1 else []
    for n, top in enumerate(edges):
        part = slice(top, top + rows_at_once)
        own = slice(events[n], events[n + 1]) if events else slice(None)
        E, total = exponentials(q[part], p, constants, offset[part])
        scale = weight[part] / total
        row = chosen.row[own] - top
        held = _subtract(E, row, chosen.item[own], chosen.weight[own] / scale[row], chosen.once)
        loss += (weight[part] * total.log()).sum() - (chosen.weight[own] * held).sum()
        of_queries[part] = _product(E, p) * scale[:, None]
        if of_items is not None and of_constants is not None:
            of_items += _product(E.T, (q[part] * scale[:, None]).to(half))
            of_constants += _product(E.T, scale.to(half)[:, None])[:, 0]
    return Slopes(loss, of_queries, of_items, of_constants)


def number_type(device: torch.device) -> torch.dtype:
    """Of factors of products: short numbers where there are units for them; sums are float32."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def exponentials(
    q: torch.Tensor, p: torch.Tensor, constants: torch.Tensor, offset: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(E = exp(q . p + constants - offset) [rows, items] in the type of q, its sums float32 [rows])"""
    if q.device.type == "cuda" and find_spec("triton") is not None:
        return import_module("fmpair.engine.torch.fused").exponentials(q, p, constants, offset)
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
