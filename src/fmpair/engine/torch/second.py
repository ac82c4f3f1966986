"""A2 of `engine.triples` on a device: the products of the pairs of features that meet."""

from __future__ import annotations

from typing import NamedTuple

import torch

from fmpair.engine.contract import Meeting
from fmpair.engine.torch.rows import Bags, sums, sums_of_squares


class DeviceMeeting(NamedTuple):
    """`Meeting` on a device. group: int64 [features]; meets: float32 [groups, groups]."""

    own: int
    group: torch.Tensor
    meets: torch.Tensor


def meeting_of(meeting: Meeting, device: torch.device) -> DeviceMeeting:
    """The meeting, copied."""
    group = torch.from_numpy(meeting.group.astype("int64")).to(device)
    return DeviceMeeting(meeting.own, group, torch.from_numpy(meeting.meets.copy()).to(device))


def second(
    own: torch.Tensor,
    total: torch.Tensor,
    bags: list[Bags],
    table: torch.Tensor,
    meeting: DeviceMeeting,
) -> torch.Tensor:
    """A2, [rows, factors], of vectors of triples alone.

    own: [rows, factors] of the ids; total: the sum of these and of the bags' rows of `table`.
    """
    meets, of_own = meeting.meets, meeting.own
    alone = meets[of_own, of_own] * own.square()
    for bag in bags:
        group = meeting.group[bag.column]
        root = bag.value * meets[group, group]  # 0 or 1, so that its square is itself
        alone = alone + sums_of_squares(table, bag._replace(value=root))
    if len(meets) == 1:
        return 0.5 * (meets[0, 0] * total.square() - alone)
    stack = [own if one == of_own else torch.zeros_like(own) for one in range(len(meets))]
    for bag in bags:
        group = meeting.group[bag.column]
        for one in range(len(meets)):
            part = bag._replace(value=bag.value * (group == one))
            stack[one] = stack[one] + sums(table, part)
    stacked = torch.stack(stack)
    return 0.5 * ((stacked * torch.tensordot(meets, stacked, 1)).sum(0) - alone)
