"""Gaussian processes per user over vectors of items and context values: scoring and training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, group_rows, join_rows, starts, tally
from fmpair.checks import check_vectors
from fmpair.data import Dataset
from fmpair.errors import ModelFileError, OptionError, named
from fmpair.features import FeatureSpace, situations
from fmpair.fitted import file_checks
from fmpair.fitted.file_checks import (
    FLOAT64,
    Numbers,
    Places,
    Starts,
    arrays_of,
    largest,
    rows_from,
)
from fmpair.fitted.ranker import Ranker
from fmpair.solvers.gaussian import (
    Descent,
    Latent,
    PointLayout,
    UserPairs,
    bytes_needed,
    epoch,
    regress,
    scores,
)
from fmpair.threads import side_by_side
from fmpair.training.epochs import Epoch, diverged, epochs

MAX_POINTS = 1 << 26  # numbers of one user's points in a model file: 512 MB
LARGEST_SCALE = 300.0  # logarithm of a kernel's scale in a model file
ROUNDING = 1e20  # margin for rounding: squared distances are computed as differences
APART = 1.0  # standard deviation of the initial distance of situations, in kernel lengths


@dataclass(frozen=True, eq=False)
class GaussianProcessScorer:
    """score(item, situation) = sum over the user's points of weight * kernel.

    pairs: those whose items are the points; weight: float64 [2 * pairs].
    """

    space: FeatureSpace
    latent: Latent
    layout: PointLayout
    pairs: UserPairs
    weight: np.ndarray
    scores_unknown_users: ClassVar[bool] = False

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        out = np.zeros((len(users), len(self._items)), np.float32)
        situations = self._situations(context, len(users))
        order = np.argsort(users, kind="stable")
        firsts = np.flatnonzero(np.diff(users[order], prepend=-1))
        groups = np.split(order, firsts[1:])

        def run(group: int) -> None:
            rows = groups[group]
            user = int(users[rows[0]])
            points = self.layout.points(self.latent.vectors, *self.pairs.of(user))
            weight = self.weight[2 * self.pairs.start[user] : 2 * self.pairs.start[user + 1]]
            scale = self.latent.scales[user]
            out[rows] = scores(self._items, situations[rows], points, weight, scale)

        side_by_side(run, range(len(groups)), None)
        return out

    def _situations(self, context: pl.DataFrame, count: int) -> np.ndarray:
        """Return the context part of the points: float64 [count, dimensions - factors]."""
        rows, _ = self.space.query.encode("context", context, count, self.space.whole)
        layout = PointLayout(_table_rows(self.space, rows), self.layout.place)
        any_item = np.zeros(count, np.int32)
        points = layout.points(self.latent.vectors, any_item, np.arange(count))
        return points[:, self._items.shape[1] :]

    @cached_property
    def _items(self) -> np.ndarray:
        return self.latent.vectors[: len(self.space.items)]

    def item_similarity(self, item: int) -> np.ndarray:
        """Return exp(-distance) of the items' vectors."""
        apart = np.linalg.norm(self._items - self._items[item], axis=1)
        return np.exp(-apart).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        tables = {**self.latent._asdict(), **self.pairs._asdict(), "weight": self.weight}
        return {**tables, **arrays_of({"situations": self.layout.situations})}


def restored(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> GaussianProcessScorer:
    """Return the scorer of saved arrays."""
    users, items, field_of_row = len(space.users), len(space.items), _places(space)
    situations = len(arrays.get("situations.start", ())) - 1
    pairs, by_pair = len(arrays.get("item", ())), ("pairs",)
    table = {
        "vectors": Numbers((len(field_of_row), "factors"), FLOAT64),
        "scales": Numbers((users, 3), FLOAT64),
        "start": Starts((users + 1,), "pairs"),
        "item": Places(by_pair, items),
        "other": Places(by_pair, items),
        "situation": Places(by_pair, situations),
        "weight": Numbers((2 * pairs,), FLOAT64),
        **file_checks.sparse("situations", max(situations, 0), len(field_of_row)),
    }
    checked = file_checks.check(arrays, table)
    scorer = GaussianProcessScorer(
        space,
        Latent(*(checked[name] for name in Latent._fields)),
        PointLayout(rows_from(checked, "situations"), field_of_row),
        UserPairs(*(checked[name] for name in UserPairs._fields)),
        checked["weight"],
    )
    _refuse_extremes(scorer)
    return scorer


def _refuse_extremes(scorer: GaussianProcessScorer) -> None:
    """Raise ModelFileError for a model that does not fit into memory or has infinite scores."""
    vectors, scales = scorer.latent
    most = int(np.diff(scorer.pairs.start).max(initial=0))
    fields = int(scorer.layout.place.max(initial=0)) + 1
    if 2 * most * fields * vectors.shape[1] > MAX_POINTS:
        raise ModelFileError("a user has more pairs than can be scored")
    if largest(scales) > LARGEST_SCALE:
        raise ModelFileError("the array 'scales' has numbers that no kernel can have")
    far = sum(encoder.reach for encoder in scorer.space.query.encoders)
    point = (1 + far) * largest(vectors) + file_checks.reach(scorer.layout.situations, vectors)
    shortest = math.exp(2 * float(scales[:, 0].min(initial=0)))
    highest = math.exp(2 * float(scales[:, 1].max(initial=0)))
    squares = fields * vectors.shape[1] * point * point / shortest
    file_checks.refuse_overflow(squares * ROUNDING, 2 * most * largest(scorer.weight) * highest)


def check_memory(recipe: Any, data: Dataset) -> None:
    """Raise OptionError if training does not fit into memory."""
    most = min(recipe.pairs, int(tally(data.user, len(data.users)).max()))
    needed = bytes_needed(most, recipe.threads) / 2**30
    if needed > recipe.max_gb:
        raise OptionError(
            f"GPFM needs {needed:,.1f} GB for a user with {most:,} pairs, but max_gb is "
            f"{recipe.max_gb:g}: lower pairs ({recipe.pairs:,}) or threads, or raise max_gb"
        )


def train(recipe: Any, data: Dataset) -> Iterator[Epoch]:
    """Return the epochs of a GPFM."""
    # both values of a Boolean have a vector, unlike a feature that is there or not
    fields = {
        f"context.{name}": {"kind": "categorical"}
        for name in data.context
        if data.columns[name].dtype == pl.Boolean
    }
    space = FeatureSpace.fit(data, fields)
    contexts, situation = situations(space, data)
    layout = PointLayout(_table_rows(space, contexts), _places(space))
    check_vectors(2 * len(layout.place), recipe.factors)  # twice as many, since they are float64
    latent = _first(recipe, layout, len(data.users))
    speed = Latent(np.zeros_like(latent.vectors), np.zeros_like(latent.scales))
    descent = Descent(speed, recipe.learning_rate, recipe.momentum, recipe.threads)
    pairs: UserPairs

    def learn(number: int) -> float:
        nonlocal pairs
        rng = np.random.default_rng([recipe.seed, number])
        pairs = drawn_pairs(data, situation, recipe.pairs, rng)
        order = rng.permutation(np.flatnonzero(np.diff(pairs.start)))
        loss = epoch(latent, descent, layout, pairs, order) / len(order)
        if not np.isfinite(loss):
            lower = f"lower {named('learning_rate')} ({recipe.learning_rate:g})"
            raise diverged(number, f"{lower} or raise initial_noise")
        return loss

    def fitted() -> Ranker:
        settled = _settled(latent, layout, data, situation)
        weight = regress(settled, layout, pairs, recipe.threads)
        scorer = GaussianProcessScorer(space, settled, layout, pairs, weight)
        return Ranker(space, scorer, data.seen, recipe, data.frame_kind)

    return epochs(recipe.epochs, learn, fitted)


def drawn_pairs(
    data: Dataset, situation: np.ndarray, most: int, rng: np.random.Generator
) -> UserPairs:
    """Draw at most `most` events of each user, each with an item that the user does not have.

    These are uniform among the items with events; users who have them all get no pair.
    """
    known, seen = np.unique(data.item), data.seen
    left = len(known) - np.diff(seen.start)
    order = rng.permutation(len(data))
    order = order[np.argsort(data.user[order], kind="stable")]
    begin = starts(tally(data.user, len(data.users)))
    number = np.arange(len(data)) - np.repeat(begin[:-1], np.diff(begin))
    event = order[(number < most) & (left[data.user[order]] > 0)]
    user = data.user[event].astype(np.int64)
    # The r-th item that a user lacks has number r + n, with n of the user's items before it.
    rank = rng.integers(left[user])
    before = np.searchsorted(known, seen.column) - (
        np.arange(len(seen.column)) - seen.start[seen.owner]
    )
    key = seen.owner * len(known) + before  # lacking items before each of the user's
    passed = np.searchsorted(key, user * len(known) + rank, side="right") - seen.start[user]
    other = known[rank + passed].astype(np.int32)
    start = starts(tally(user, len(data.users)))
    return UserPairs(start, data.item[event], other, situation[event])


def _first(recipe: Any, layout: PointLayout, users: int) -> Latent:
    """Return initial values: items close together, situations apart, scales for labels of 1 and -1.

    Situations must start apart: both items of a pair have the same one, so its gradient vanishes
    until items and situations have moved.
    """
    rng = np.random.default_rng([recipe.seed, 0])
    vectors = rng.random((len(layout.place), recipe.factors)) * 1e-4
    context = layout.place > 0
    dimensions = recipe.factors * max(int(layout.place.max()), 1)
    offsets = rng.standard_normal((int(context.sum()), recipe.factors))
    vectors[context] = offsets * APART / np.sqrt(dimensions)
    length, noise = 0.5 + rng.random(users), recipe.initial_noise * (1 + rng.random(users))
    return Latent(vectors, np.log(np.column_stack([length, np.ones(users), noise])))


def _places(space: FeatureSpace) -> np.ndarray:
    """Return the field of each table row: int32 [rows]; 0 for items, then the context fields.

    Each context field has an extra row, for missing values.
    """
    sizes = [encoder.size + 1 for _, encoder in space.query.of_role("context")]
    places = np.arange(1 + len(sizes), dtype=np.int32)
    return np.repeat(places, [len(space.items), *sizes])


def _table_rows(space: FeatureSpace, rows: Rows) -> Rows:
    """Return context features as rows over the table; missing values get their field's last row."""
    parts, first = [], len(space.items)
    for offset, encoder in space.query.of_role("context"):
        in_field = (rows.column >= offset) & (rows.column < offset + encoder.size)
        owner = rows.owner[in_field]
        gap = np.setdiff1d(np.arange(rows.size), owner)
        column = np.append(rows.column[in_field] - offset, np.full(len(gap), encoder.size))
        value = np.append(rows.value[in_field], np.ones(len(gap), np.float32))
        parts.append(group_rows(np.append(owner, gap), first + column, rows.size, value))
        first += encoder.size + 1
    return join_rows(parts) if parts else empty_rows(rows.size)


def _settled(latent: Latent, layout: PointLayout, data: Dataset, situation: np.ndarray) -> Latent:
    """Return a copy with sensible vectors for what was never trained.

    Items without events get the mean of the rarest ones; the missing value of a field without
    missing values gets the mean over the events.
    """
    vectors, rows, items = latent.vectors.copy(), layout.situations, len(data.items)
    times = tally(data.item, items)
    rare = (times > 0) & (times <= np.quantile(times[times > 0], 0.1))
    vectors[:items][times == 0] = vectors[:items][rare].mean(axis=0)
    events = tally(situation, rows.size)
    share = tally(rows.column, len(vectors), rows.value * events[rows.owner]) / len(data)
    for field in range(1, int(layout.place.max()) + 1):
        of_field = np.flatnonzero(layout.place == field)
        if share[of_field[-1]] == 0:
            vectors[of_field[-1]] = share[of_field] @ vectors[of_field]
    return Latent(vectors, latent.scales.copy())
