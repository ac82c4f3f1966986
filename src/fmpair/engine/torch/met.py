"""The users that a minibatch meets: their slopes summed by user, whatever rows they stand in."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Met(NamedTuple):
    """One user a row. A user who has several rows has the same sums in each of them.

    user: int64 [rows]; slope: float32 [rows, columns]; events: float32 [rows], 0 for a user who is
    not met after all, since minibatches have empty rows.
    """

    user: torch.Tensor
    slope: torch.Tensor
    events: torch.Tensor


def met_of(user: torch.Tensor, slope: torch.Tensor, events: torch.Tensor) -> Met:
    """Sums by user of what stands in rows. All sizes are known beforehand, so steps are recorded.

    It adds up in a fixed order, so that the bits are always alike.
    """
    order = torch.argsort(user, stable=True)
    ordered = user[order]
    place = torch.zeros_like(user)
    place[order[1:]] = (ordered[1:] != ordered[:-1]).cumsum(0)
    both = torch.cat([slope, events[:, None]], 1)
    total = torch.ops.aten.embedding_dense_backward(both, place, len(user), -1, False)[place]
    return Met(user, total[:, :-1], total[:, -1])
