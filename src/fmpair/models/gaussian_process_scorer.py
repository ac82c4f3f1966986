"""Gaussian processes of users over vectors of items and context values: learned, and asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, group_rows, join_rows, starts, tally
from fmpair.capacity import check_vectors
from fmpair.data import Dataset
from fmpair.errors import ModelFileError, OptionError, named
from fmpair.features import FeatureSpace, situations
from fmpair.features.encoder import FAR
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

MOST_POINTS = 1 << 26  # numbers of the points of one user in a model file: 512 MB
LARGEST_SCALE = 300.0  # of a kernel in a model file, as a logarithm
ROUNDING = 1e20  # squares of distances are differences, and what is rounded off must stay small
APART = 1.0  # standard deviation of two situations' first distance, in lengths of a kernel


@dataclass(frozen=True, eq=False)
class Processes:
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
        asked = self._asked(context, len(users))
        order = np.argsort(users, kind="stable")
        firsts = np.flatnonzero(np.diff(users[order], prepend=-1))
        groups = np.split(order, firsts[1:])

        def run(group: int) -> None:
            rows = groups[group]
            user = int(users[rows[0]])
            own = self.layout.points(self.latent.vectors, *self.pairs.of(user))
            weight = self.weight[2 * self.pairs.start[user] : 2 * self.pairs.start[user + 1]]
            out[rows] = scores(self._items, asked[rows], own, weight, self.latent.scales[user])

        side_by_side(run, range(len(groups)), None)
        return out

    def _asked(self, context: pl.DataFrame, count: int) -> np.ndarray:
        """float64 [count, dimensions - factors]: the situations' part of a point."""
        found, _ = self.space.query.encode("context", context, count, self.space.whole)
        layout = PointLayout(_table_rows(self.space, found), self.layout.place)
        any_item = np.zeros(count, np.int32)
        points = layout.points(self.latent.vectors, any_item, np.arange(count))
        return points[:, self._items.shape[1] :]

    @cached_property
    def _items(self) -> np.ndarray:
        return self.latent.vectors[: len(self.space.items)]

    def item_similarity(self, item: int) -> np.ndarray:
        """exp(-distance) of the items' vectors: 1 for the same place."""
        apart = np.linalg.norm(self._items - self._items[item], axis=1)
        return np.exp(-apart).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        tables = {**self.latent._asdict(), **self.pairs._asdict()}
        return {
            **tables,
            **arrays_of({"situations": self.layout.situations}),
            "weight": self.weight,
        }


def restored(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Processes:
    """The scorer whose arrays these are."""
    users, items, place = len(space.users), len(space.items), _places(space)
    situations = len(arrays.get("situations.start", ())) - 1
    pairs, own = len(arrays.get("item", ())), ("pairs",)
    table = {
        "vectors": Numbers((len(place), "factors"), FLOAT64),
        "scales": Numbers((users, 3), FLOAT64),
        "start": Starts((users + 1,), "pairs"),
        "item": Places(own, items),
        "other": Places(own, items),
        "situation": Places(own, situations),
        "weight": Numbers((2 * pairs,), FLOAT64),
        **file_checks.sparse("situations", max(situations, 0), len(place)),
    }
    found = file_checks.check(arrays, table)
    scorer = Processes(
        space,
        Latent(*(found[name] for name in Latent._fields)),
        PointLayout(rows_from(found, "situations"), place),
        UserPairs(*(found[name] for name in UserPairs._fields)),
        found["weight"],
    )
    _refuse_extremes(scorer)
    return scorer


def _refuse_extremes(scorer: Processes) -> None:
    """Refuse what would not fit into memory, or would give scores that are no numbers."""
    vectors, scales = scorer.latent
    most = int(np.diff(scorer.pairs.start).max(initial=0))
    fields = int(scorer.layout.place.max(initial=0)) + 1
    if 2 * most * fields * vectors.shape[1] > MOST_POINTS:
        raise ModelFileError("a user has more pairs than can be scored")
    if largest(scales) > LARGEST_SCALE:
        raise ModelFileError("the array 'scales' has numbers that no kernel can have")
    asked = FAR * sum(encoder.field.scale for encoder in scorer.space.query.encoders)
    point = (1 + asked) * largest(vectors) + file_checks.reach(scorer.layout.situations, vectors)
    shortest = math.exp(2 * float(scales[:, 0].min(initial=0)))
    highest = math.exp(2 * float(scales[:, 1].max(initial=0)))
    squares = fields * vectors.shape[1] * point * point / shortest
    file_checks.refuse_overflow(squares * ROUNDING, 2 * most * largest(scorer.weight) * highest)


def check_memory(recipe: Any, data: Dataset) -> None:
    """Refuse what cannot fit before it is begun."""
    most = min(recipe.pairs, int(tally(data.user, len(data.users)).max()))
    needed = bytes_needed(most, recipe.threads) / 2**30
    if needed > recipe.max_gb:
        raise OptionError(
            f"GPFM needs {needed:,.1f} GB for a user with {most:,} pairs, and max_gb allows "
            f"{recipe.max_gb:g}: lower pairs ({recipe.pairs:,}), or take fewer threads"
        )


def train(recipe: Any, data: Dataset) -> Iterator[Epoch]:
    """Epochs of a GPFM."""
    # a truth value is two values, each with its own vector, not one that is there or not
    fields = {
        f"context.{name}": {"kind": "categorical"}
        for name in data.context
        if data.columns[name].dtype == pl.Boolean
    }
    space = FeatureSpace.fit(data, fields)
    found, situation = situations(space, data)
    layout = PointLayout(_table_rows(space, found), _places(space))
    check_vectors(2 * len(layout.place), recipe.factors)  # of float64
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
        scorer = Processes(space, settled, layout, pairs, weight)
        return Ranker(space, scorer, data.seen, recipe, data.frame_kind)

    return epochs(recipe.epochs, learn, fitted)


def drawn_pairs(
    data: Dataset, situation: np.ndarray, most: int, rng: np.random.Generator
) -> UserPairs:
    """For each user at most so many of their events, each against an item they have not.

    The other item is uniform among the items with events. Who has them all has no pair.
    """
    known, seen = np.unique(data.item), data.seen
    left = len(known) - np.diff(seen.start)
    order = rng.permutation(len(data))
    order = order[np.argsort(data.user[order], kind="stable")]
    begin = starts(tally(data.user, len(data.users)))
    number = np.arange(len(data)) - np.repeat(begin[:-1], np.diff(begin))
    event = order[(number < most) & (left[data.user[order]] > 0)]
    user = data.user[event].astype(np.int64)
    # The r-th item that a user lacks is number r + n, n being how many of theirs stand before it.
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
    """Items all but in one place, situations apart, scales around what suits labels of 1 and -1.

    Situations that were not apart would stay together: both items of a pair have the same, so what
    they mean shows in no slope before items and situations have moved, each waiting for the other.
    """
    rng = np.random.default_rng([recipe.seed, 0])
    vectors = rng.random((len(layout.place), recipe.factors)) * 1e-4
    context = layout.place > 0
    dimensions = recipe.factors * max(int(layout.place.max()), 1)
    apart = rng.standard_normal((int(context.sum()), recipe.factors))
    vectors[context] = apart * APART / np.sqrt(dimensions)
    length, noise = 0.5 + rng.random(users), recipe.initial_noise * (1 + rng.random(users))
    return Latent(vectors, np.log(np.column_stack([length, np.ones(users), noise])))


def _places(space: FeatureSpace) -> np.ndarray:
    """int32 [rows of the table]: 0 for items, 1 and so on for each context field with its gap."""
    sizes = [encoder.size + 1 for _, encoder in space.query.of_role("context")]
    places = np.arange(1 + len(sizes), dtype=np.int32)
    return np.repeat(places, [len(space.items), *sizes])


def _table_rows(space: FeatureSpace, rows: Rows) -> Rows:
    """Context features as rows over the table of vectors.

    Where a field has none (missing, left open or unknown) its last vector, the gap's, stands in.
    """
    parts, first = [], len(space.items)
    for offset, encoder in space.query.of_role("context"):
        mine = (rows.column >= offset) & (rows.column < offset + encoder.size)
        owner = rows.owner[mine]
        gap = np.setdiff1d(np.arange(rows.size), owner)
        column = np.append(rows.column[mine] - offset, np.full(len(gap), encoder.size))
        value = np.append(rows.value[mine], np.ones(len(gap), np.float32))
        parts.append(group_rows(np.append(owner, gap), first + column, rows.size, value))
        first += encoder.size + 1
    return join_rows(parts) if parts else empty_rows(rows.size)


def _settled(latent: Latent, layout: PointLayout, data: Dataset, situation: np.ndarray) -> Latent:
    """A copy in which vectors that nothing was learned about stand where they do no harm.

    Items without events stand among the rarest; the gap of a field without missing values is the
    mean over the events.
    """
    vectors, rows, items = latent.vectors.copy(), layout.situations, len(data.items)
    times = tally(data.item, items)
    rare = (times > 0) & (times <= np.quantile(times[times > 0], 0.1))
    vectors[:items][times == 0] = vectors[:items][rare].mean(axis=0)
    events = tally(situation, rows.size)
    share = tally(rows.column, len(vectors), rows.value * events[rows.owner]) / len(data)
    for place in range(1, int(layout.place.max()) + 1):
        own = np.flatnonzero(layout.place == place)
        if share[own[-1]] == 0:
            vectors[own[-1]] = share[own] @ vectors[own]
    return Latent(vectors, latent.scales.copy())
