"""The candidates that the relevant items are ranked among."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, distinct_pairs, starts
from fmpair.data import Dataset
from fmpair.data.attribute import in_domain
from fmpair.errors import DataError, listing
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.units import Units
from fmpair.ranking.task import IN_ORDER, UNIFORM, WEIGHTED, Pool
from fmpair.rng import stream

KINDS = {"uniform": UNIFORM, "popularity": WEIGHTED, "first": IN_ORDER}


def candidates_of(
    train: Dataset, test: Dataset, protocol: Protocol, units: Units
) -> Pool | np.ndarray:
    """bool [items] where lists are whole, else what to draw from."""
    found = _candidates(train, test, protocol, units)
    if not any(_has_a_rival(found, units, unit) for unit in range(len(units.row))):
        raise DataError(
            f"under {protocol.id} every list holds its relevant items and nothing else: any model "
            "would be perfect; give candidates that are not relevant"
        )
    return found


def _candidates(
    train: Dataset, test: Dataset, protocol: Protocol, units: Units
) -> Pool | np.ndarray:
    allowed = _of_domain(train, test, protocol.domain)
    if protocol.candidates == "all":
        return allowed
    if protocol.candidates == "file":
        return _from_file(train, protocol, units, allowed)
    times = np.bincount(train.item, minlength=len(train.items))
    if protocol.candidates == "train":
        return (times > 0) & allowed
    # In order of first appearance, which is what 'first' is about.
    order = train.item[np.sort(np.unique(train.item, return_index=True)[1])]
    order = order[allowed[order]]
    pool = Rows(
        starts(np.array([len(order)])), order.astype(np.int32), np.ones(len(order), np.float32)
    )
    return Pool(
        np.zeros(len(units.row), np.int64),
        pool,
        times.astype(np.float64),
        KINDS[protocol.candidates],
        min(protocol.n, len(order)),
        np.uint64(stream(protocol.seed)),
    )


def _has_a_rival(candidates: Pool | np.ndarray, units: Units, unit: int) -> bool:
    """Whether a unit's list has an item beside those that are relevant."""
    if isinstance(candidates, Pool):
        rows, row = candidates.items, candidates.row[unit]
        listed = rows.column[rows.start[row] : rows.start[row + 1]]
    else:
        listed = np.flatnonzero(candidates)
    task = units.task
    gone = [
        part.column[part.start[number] : part.start[number + 1]]
        for part, number in ((task.relevant, unit), (task.hidden, task.owner[unit]))
    ]
    return bool((~np.isin(listed, np.concatenate(gone))).any())


def _of_domain(train: Dataset, test: Dataset, domain: str | None) -> np.ndarray:
    """bool [items]: those with an event of the domain, in training or test; all without one."""
    if domain is None:
        return np.ones(len(train.items), bool)
    number = train.items.numbers(test.items.ids)
    item = np.concatenate(
        [train.item[in_domain(train, domain)], number[test.item[in_domain(test, domain)]]]
    )
    return np.isin(np.arange(len(train.items)), item)


def _from_file(
    train: Dataset, protocol: Protocol, units: Units, allowed: np.ndarray
) -> Pool | np.ndarray:
    frame = protocol.listed
    item = train.items.numbers(frame["item"])
    item = np.where((item >= 0) & allowed[item], item, -1)
    if not (item >= 0).any():
        raise DataError("none of the items to rank is an item of the training data")
    if "user" not in frame.columns:
        return np.isin(np.arange(len(train.items)), item)
    user = units.users.numbers(frame["user"])
    known = (item >= 0) & (user >= 0)
    rows = distinct_pairs(user[known], item[known], len(units.users))
    asked = np.unique(units.user)
    without = asked[~np.isin(asked, user)]
    if len(without):
        raise DataError(
            f"{len(without)} of {len(asked)} users of test events have no item to rank, such as "
            f"{listing(units.users.take(without[:1]))}: give each their own"
        )
    longest = int(np.diff(rows.start).max(initial=0))
    weight = np.zeros(len(train.items))
    return Pool(units.user, rows, weight, IN_ORDER, longest, np.uint64(0))
