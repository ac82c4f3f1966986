"""Scorers of `Ranker`: neighbourhoods, Markov chains, factorization machines of order 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, group_rows, join_rows, pieces, stack_rows, starts
from fmpair.data.times import Timelines, strictly_before
from fmpair.data.vocabulary import Vocabulary
from fmpair.features import FeatureSpace
from fmpair.fitted.file_checks import (
    Numbers,
    arrays_of,
    check,
    largest,
    longest,
    reach,
    refuse_overflow,
    rows_from,
    sparse,
)
from fmpair.fitted.query_encoder import known_rows
from fmpair.fitted.top_items import cosines
from fmpair.solvers.anova import Machine, halves, pairs_of, restricted, triples_of

# Neighbourhoods


@dataclass(frozen=True, eq=False)
class ItemNeighbours:
    """score(user, item) = sum over the item's neighbours j of near[item, j] * histories[user, j].

    histories: per user their items; near: per item its neighbours and how similar they are.
    """

    histories: Rows
    near: Rows
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> ItemNeighbours:
        return cls(*_restored(arrays, space, len(space.items)), space.items)

    @cached_property
    def _neighbour_of(self) -> Rows:
        """Per item the items that have it as a neighbour."""
        from fmpair.solvers.linear_algebra import turned

        return turned(self.near, len(self.items))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.history_scores(self.histories.take(users))

    def history_scores(self, history: Rows) -> np.ndarray:
        """Return float32 [n, items] for visitors with these items."""
        from fmpair.solvers.linear_algebra import product

        return product(history, self._neighbour_of, len(self.items))

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return what each item of the user adds to the score."""
        return _terms("item", self.items, self.histories, self._neighbour_of, user, item)

    def item_similarity(self, item: int) -> np.ndarray:
        return _written_out(self.near, item, len(self.items))

    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of({"own": self.histories, "near": self.near})


@dataclass(frozen=True, eq=False)
class UserNeighbours:
    """score(user, item) = sum over the user's neighbours v of near[user, v] * histories[v, item].

    histories: per user their items; near: per user their neighbours and how similar they are.
    """

    histories: Rows
    near: Rows
    users: Vocabulary
    items: int
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> UserNeighbours:
        histories, near = _restored(arrays, space, len(space.users))
        return cls(histories, near, space.users, len(space.items))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        from fmpair.solvers.linear_algebra import product

        return product(self.near.take(users), self.histories, self.items)

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return what each neighbour with the item adds to the score."""
        return _terms("user", self.users, self.near, self.histories, user, item)

    def user_similarity(self, user: int) -> np.ndarray:
        return _written_out(self.near, user, len(self.users))

    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of({"own": self.histories, "near": self.near})


def _restored(
    arrays: Mapping[str, np.ndarray], space: FeatureSpace, neighbours: int
) -> tuple[Rows, Rows]:
    """Return (histories, near) of a model file; neighbours: the number of rows of `near`."""
    table = {
        **sparse("own", len(space.users), len(space.items)),
        **sparse("near", neighbours, neighbours),
    }
    checked = check(arrays, table)
    histories, near = rows_from(checked, "own"), rows_from(checked, "near")
    refuse_overflow(
        longest(histories) * largest(near.value), longest(near) * largest(histories.value)
    )
    return histories, near


def _terms(
    what: str, ids: Vocabulary, left: Rows, right: Rows, user: int, item: int
) -> tuple[list[str], np.ndarray]:
    """Return the summands of the product of two sparse rows, with labels of their ids."""
    entries = left.take(np.array([user]))
    partners = right.take(entries.column)
    of_item = partners.column == item
    entry = partners.owner[of_item]
    labels = [f"{what}={name}" for name in ids.take(entries.column[entry])]
    return labels, entries.value[entry] * partners.value[of_item]


def _written_out(rows: Rows, number: int, columns: int) -> np.ndarray:
    """Return one sparse row as an array: float32 [columns]."""
    out, row = np.zeros(columns, np.float32), rows.take(np.array([number]))
    out[row.column] = row.value
    return out


# Markov chains


@dataclass(frozen=True, eq=False)
class MarkovScorer:
    """score(user, item) = sum over the user's last items j of
    last[user, j] * (chance[j, item] + rest[j] * popular[item]).

    last: per user the items of their last event time, which sum to one; chance: per item the
    probability that each other follows; rest, popular: float32 [items].
    """

    last: Rows
    chance: Rows
    rest: np.ndarray
    popular: np.ndarray
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False
    follows_last: ClassVar[int] = 1  # uses only the last item of a history

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> MarkovScorer:
        users, items = len(space.users), len(space.items)
        table = {
            **sparse("last", users, items),
            **sparse("chance", items, items),
            "rest": Numbers((items,), np.dtype(np.float32)),
            "popular": Numbers((items,), np.dtype(np.float32)),
        }
        checked = check(arrays, table)
        last, chance = rows_from(checked, "last"), rows_from(checked, "chance")
        follows = largest(chance.value) + largest(checked["rest"]) * largest(checked["popular"])
        refuse_overflow(longest(last) * follows)
        return cls(last, chance, checked["rest"], checked["popular"], space.items)

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self._scores(self.last.take(users))

    def following(self, history: Rows) -> np.ndarray:
        """Score visitors by the last item of their history."""
        ends = history.start[1:] - 1
        return self._scores(
            Rows(np.arange(len(ends) + 1), history.column[ends], history.value[ends])
        )

    def _scores(self, previous: Rows) -> np.ndarray:
        """Return float32 [n, items]; previous: the last items of each query."""
        from fmpair.solvers.linear_algebra import product

        rest = previous.dot(self.rest[:, None])
        return product(previous, self.chance, len(self.items)) + rest * self.popular

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return what each of the last items adds to the score, and what popularity adds."""
        labels, values = _terms("after item", self.items, self.last, self.chance, user, item)
        previous = self.last.take(np.array([user]))
        usual = previous.dot(self.rest[:, None])[0, 0] * self.popular[item]
        return [*labels, "popularity"], np.append(values, usual)

    def extended(self, lines: Timelines) -> MarkovScorer:
        """Return the scorer with the last items of users with new events replaced."""
        new, users = last_items(lines), np.arange(lines.users)
        has_new = np.diff(new.start) > 0
        both = stack_rows(self.last, new)
        return replace(self, last=both.take(users + lines.users * has_new))

    def arrays(self) -> dict[str, np.ndarray]:
        rows = arrays_of({"last": self.last, "chance": self.chance})
        return {**rows, "rest": self.rest, "popular": self.popular}


def last_items(lines: Timelines) -> Rows:
    """Return per user the items of their last event time, with values that sum to one."""
    filled = np.flatnonzero(np.diff(lines.start))
    end = lines.start[1:][filled]
    begin = strictly_before(lines)[end - 1].astype(np.int64)
    length = end - begin
    owner = np.repeat(filled, length)
    _, position = pieces(begin, length)
    share = np.repeat(1.0 / length, length)
    return add_repeats(group_rows(owner, lines.item[position], lines.users, share))


# Factorization machines

ROWS = ("user_rows", "item_rows")


@dataclass(frozen=True)
class Layout:
    """The numbers of all features of a space: users, a stranger, items, query and item features.

    The stranger is any unknown user. It occurs in no example.
    """

    space: FeatureSpace

    @property
    def edges(self) -> np.ndarray:
        """int64 [groups + 1]: the first feature of each group: users, items, then every field."""
        encoders = (*self.space.query.encoders, *self.space.item.encoders)
        sizes = [self.stranger + 1, len(self.space.items), *(e.size for e in encoders)]
        return starts(np.array(sizes, np.int64))

    @property
    def stranger(self) -> int:
        return len(self.space.users)

    def query(self, user: np.ndarray, profiles: Rows, contexts: Rows) -> Rows:
        """Return the features of queries; user: numbers, -1 if unknown."""
        known = np.where(user < 0, self.stranger, user)
        first = int(self.edges[2])
        return join_rows([_id_rows(known), _shifted(profiles, first), _shifted(contexts, first)])

    def item(self, item: np.ndarray, attributes: Rows) -> Rows:
        """Return the features of items; attributes: one row for each."""
        first = int(self.edges[2]) + self.space.query.size
        return join_rows([_id_rows(self.stranger + 1 + item), _shifted(attributes, first)])


@dataclass(frozen=True)
class MachineScorer:
    """Scores of all items: a product of two vectors, a constant per item and one per query.

    user_rows, item_rows: the attributes of known users and items.
    """

    scores_unknown_users: ClassVar[bool] = True
    layout: Layout
    machine: Machine
    user_rows: Rows
    item_rows: Rows

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        """Return the predictions, terms of the query alone included: float32 [n, items]."""
        space = self.layout.space
        contexts, _ = space.query.encode("context", context, len(users), space.whole)
        rows = self.layout.query(users, known_rows(self.user_rows, users), contexts)
        machine, rows = restricted(self.machine, rows)  # no work for all other users
        first, second = halves(machine.triples, rows)
        vectors = np.hstack([rows.dot(machine.pairs), first, second]).astype(np.float32)
        constants = machine.bias + _alone(machine, rows)
        items, item_constants = self._items
        return vectors @ items.T + item_constants + constants.astype(np.float32)[:, None]

    @cached_property
    def _items(self) -> tuple[np.ndarray, np.ndarray]:
        """(vectors [items, ...] to multiply with those of a query, constants [items]), float32."""
        rows = self.layout.item(np.arange(self.item_rows.size), self.item_rows)
        first, second = halves(self.machine.triples, rows)
        vectors = np.hstack([rows.dot(self.machine.pairs), second, first])
        return vectors.astype(np.float32), _alone(self.machine, rows).astype(np.float32)

    def item_similarity(self, item: int) -> np.ndarray:
        """Return the cosines with an item's vector, attributes included: float32 [items]."""
        return cosines(self._items[0], item)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the tables and the rows by name, for `restored`."""
        named = {name: np.asarray(table) for name, table in self.machine._asdict().items()}
        return named | arrays_of({name: getattr(self, name) for name in ROWS})


def restored(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> MachineScorer:
    """Return the scorer of these arrays; raise ModelFileError if they are not valid."""
    layout = Layout(space)
    features = int(layout.edges[-1])
    table = {
        "bias": Numbers((1,)),
        "linear": Numbers((features,)),
        "pairs": Numbers((features, "factors")),
        "triples": Numbers((features, "triple factors")),
        **sparse("user_rows", len(space.users), space.query.size),
        **sparse("item_rows", len(space.items), space.item.size),
    }
    checked = check(arrays, table)
    bias, *tables = (checked[name] for name in Machine._fields)
    machine = Machine(float(bias.item()), *tables)
    scorer = MachineScorer(layout, machine, *(rows_from(checked, name) for name in ROWS))
    refuse_overflow(*_extremes(scorer))
    return scorer


def _extremes(scorer: MachineScorer) -> tuple[float, ...]:
    """Return upper bounds of the terms of a score."""
    machine, space = scorer.machine, scorer.layout.space
    first, far = int(scorer.layout.edges[2]), sum(e.reach for e in space.query.encoders)

    def most(table: np.ndarray) -> float:
        """Return an upper bound of the sum of a row's vectors, in any factor."""
        query, item = table[first : first + space.query.size], table[first + space.query.size :]
        attributes = reach(scorer.user_rows, query) + reach(scorer.item_rows, item)
        return (2 + far) * largest(table) + attributes

    pair, triple = most(machine.pairs), most(machine.triples)
    pairs, triples = machine.pairs.shape[1] * pair * pair, triple * triple * triple
    alone = abs(machine.bias), most(machine.linear[:, None])
    return *alone, pairs, machine.triples.shape[1] * triples * max(triple, 1)  # cosines: one more


def _alone(machine: Machine, rows: Rows) -> np.ndarray:
    """Return the terms of the features of one side alone: float64 [rows]."""
    linear = rows.dot(machine.linear[:, None])[:, 0]
    return linear + pairs_of(machine.pairs, rows) + triples_of(machine.triples, rows)


def _id_rows(numbers: np.ndarray) -> Rows:
    count = len(numbers)
    return Rows(np.arange(count + 1), numbers.astype(np.int32), np.ones(count, np.float32))


def _shifted(rows: Rows, by: int) -> Rows:
    return rows._replace(column=(rows.column + by).astype(np.int32))
