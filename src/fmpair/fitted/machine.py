"""A fitted factorization machine of order 2 or 3: what it predicts for every item of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, starts
from fmpair.features import FeatureSpace
from fmpair.features.encoder import FAR
from fmpair.fitted.integrity import Numbers, check, largest, reach, refuse_overflow, sparse
from fmpair.fitted.named_rows import arrays_of, rows_from
from fmpair.fitted.query import known_rows
from fmpair.fitted.similarity import cosines
from fmpair.solvers.anova import Machine, halves, pairs_of, restricted, triples_of

ROWS = ("user_rows", "item_rows")


@dataclass(frozen=True)
class Layout:
    """The numbers of all features of a space: users, a stranger, items, query and item features.

    The stranger stands for every user not known. It occurs in no example.
    """

    space: FeatureSpace

    @property
    def edges(self) -> np.ndarray:
        """int64 [groups + 1]: where each group begins: users, items, then every field."""
        encoders = (*self.space.query.encoders, *self.space.item.encoders)
        sizes = [self.stranger + 1, len(self.space.items), *(e.size for e in encoders)]
        return starts(np.array(sizes, np.int64))

    @property
    def stranger(self) -> int:
        return len(self.space.users)

    def query(self, user: np.ndarray, profiles: Rows, contexts: Rows) -> Rows:
        """Features of who asks in which situation; user: numbers, -1 where unknown."""
        known = np.where(user < 0, self.stranger, user)
        first = int(self.edges[2])
        return join_rows([_ids(known), _shifted(profiles, first), _shifted(contexts, first)])

    def item(self, item: np.ndarray, attributes: Rows) -> Rows:
        """Features of items; attributes: one row for each of them."""
        first = int(self.edges[2]) + self.space.query.size
        return join_rows([_ids(self.stranger + 1 + item), _shifted(attributes, first)])


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
        """float32 [n, items]: the predictions themselves, terms of the query alone included."""
        space = self.layout.space
        contexts, _ = space.query.encode("context", context, len(users), space.whole)
        rows = self.layout.query(users, known_rows(self.user_rows, users), contexts)
        machine, rows = restricted(self.machine, rows)  # no work for all other users
        one, two = halves(machine.triples, rows)
        vectors = np.hstack([rows.dot(machine.pairs), one, two]).astype(np.float32)
        constants = machine.bias + _alone(machine, rows)
        items, item_constants = self._items
        return vectors @ items.T + item_constants + constants.astype(np.float32)[:, None]

    @cached_property
    def _items(self) -> tuple[np.ndarray, np.ndarray]:
        """(vectors [items, ...] that meet those of a query, constants [items]), float32."""
        rows = self.layout.item(np.arange(self.item_rows.size), self.item_rows)
        one, two = halves(self.machine.triples, rows)
        vectors = np.hstack([rows.dot(self.machine.pairs), two, one])
        return vectors.astype(np.float32), _alone(self.machine, rows).astype(np.float32)

    def item_similarity(self, item: int) -> np.ndarray:
        """float32 [items]: cosines with an item's vector, attributes included."""
        return cosines(self._items[0], item)

    def arrays(self) -> dict[str, np.ndarray]:
        """The tables and the rows by name, for `restored`."""
        named = {name: np.asarray(table) for name, table in self.machine._asdict().items()}
        return named | arrays_of({name: getattr(self, name) for name in ROWS})


def restored(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> MachineScorer:
    """The scorer whose arrays these are."""
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
    found = check(arrays, table)
    bias, *tables = (found[name] for name in Machine._fields)
    machine = Machine(float(bias.item()), *tables)
    scorer = MachineScorer(layout, machine, *(rows_from(found, name) for name in ROWS))
    refuse_overflow(*_extremes(scorer))
    return scorer


def _extremes(scorer: MachineScorer) -> tuple[float, ...]:
    """More than the largest terms that a score can have."""
    machine, space = scorer.machine, scorer.layout.space
    first, scales = int(scorer.layout.edges[2]), [e.field.scale for e in space.query.encoders]

    def most(table: np.ndarray) -> float:
        """Of the sum of a row's vectors, in any factor."""
        query, item = table[first : first + space.query.size], table[first + space.query.size :]
        attributes = reach(scorer.user_rows, query) + reach(scorer.item_rows, item)
        return (2 + FAR * sum(scales)) * largest(table) + attributes

    pair, triple = most(machine.pairs), most(machine.triples)
    pairs, triples = machine.pairs.shape[1] * pair * pair, triple * triple * triple
    alone = abs(machine.bias), most(machine.linear[:, None])
    return *alone, pairs, machine.triples.shape[1] * triples * max(triple, 1)  # cosines: one more


def _alone(machine: Machine, rows: Rows) -> np.ndarray:
    """float64 [rows]: what the features of one side say by themselves."""
    linear = rows.dot(machine.linear[:, None])[:, 0]
    return linear + pairs_of(machine.pairs, rows) + triples_of(machine.triples, rows)


def _ids(numbers: np.ndarray) -> Rows:
    """One feature a row."""
    count = len(numbers)
    return Rows(np.arange(count + 1), numbers.astype(np.int32), np.ones(count, np.float32))


def _shifted(rows: Rows, by: int) -> Rows:
    return rows._replace(column=(rows.column + by).astype(np.int32))
