"""A score taken apart: every pair of a query feature and an item feature, and the constants."""

from __future__ import annotations

from itertools import combinations
from typing import Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.engine.contract import Meeting, Parameters, Triples
from fmpair.engine.triples import pair_columns
from fmpair.features import FeatureSpace
from fmpair.fitted.query import Queries


class Explained(Protocol):
    """What a score is made of: see `Recommender`."""

    @property
    def space(self) -> FeatureSpace: ...
    @property
    def parameters(self) -> Parameters: ...
    @property
    def item_rows(self) -> Rows: ...
    @property
    def mean_user(self) -> np.ndarray: ...
    @property
    def triples(self) -> Triples | None: ...
    @property
    def taken_off(self) -> np.ndarray: ...
    @property
    def damping(self) -> float: ...


def explain_terms(model: Explained, queries: Queries, item: int) -> pl.DataFrame:
    """(query, item, value), largest first; the values add up to the score."""
    query_names, query_rows = _query_parts(model, queries)
    item_names, item_rows, biases = _item_parts(model, item)
    pairs = pair_columns(query_rows.shape[1], model.triples)
    query_vectors, item_vectors = query_rows[:, :pairs], item_rows[:, :pairs]
    terms = [
        (q, i, float(value))
        for q, row in zip(query_names, query_vectors @ item_vectors.T)
        for i, value in zip(item_names, row)
    ]
    terms += [("", name, float(bias)) for name, bias in zip(item_names, biases)]
    inner = item_vectors @ item_vectors.T
    terms += [("", f"{item_names[a]} x {item_names[b]}", float(inner[a, b]))
              for a, b in combinations(range(len(item_names)), 2)]  # fmt: skip
    if model.triples is not None:
        sides = ((query_names, query_rows[:, pairs:]), (item_names, item_rows[:, pairs:]))
        terms += _triple_terms(model, queries, item, sides)
    if model.damping:
        terms.append(("", "damping", -float(model.taken_off[item])))
    terms.sort(key=lambda term: -abs(term[2]))
    schema = {"query": pl.String, "item": pl.String, "value": pl.Float64}
    return pl.DataFrame(terms, schema=schema, orient="row")


Part = tuple[list[str], np.ndarray]  # labels, scaled vectors
Term = tuple[str, str, float]


def _triple_terms(
    model: Explained, queries: Queries, item: int, sides: tuple[Part, Part]
) -> list[Term]:
    """Two features of one side and one of the other: those that meet."""
    assert model.triples is not None
    (query_names, query), (item_names, own) = sides
    of_query = _couples(model.triples.query, queries.rows.column, query_names, query)
    rows = model.item_rows.take(np.array([item]))
    of_item = _couples(model.triples.item, rows.column, item_names, own)
    terms = [
        (couple, name, float(product @ vector))
        for couple, product in of_query
        for name, vector in zip(item_names, own)
    ]
    return terms + [
        (name, couple, float(product @ vector))
        for couple, product in of_item
        for name, vector in zip(query_names, query)
    ]


def _couples(
    meeting: Meeting, column: np.ndarray, names: list[str], vectors: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """Labels and products of the features of a side that meet, the id first."""
    group = np.append(meeting.own, meeting.group[column])
    return [
        (f"{names[a]} x {names[b]}", vectors[a] * vectors[b])
        for a, b in combinations(range(len(names)), 2)
        if meeting.meets[group[a], group[b]]
    ]


def _query_parts(model: Explained, queries: Queries) -> tuple[list[str], np.ndarray]:
    """Labels and scaled vectors of what asks: the user and every query feature."""
    number = int(queries.user[0])
    known = number >= 0
    names = [f"user={model.space.users.ids[number]}" if known else "a usual user"]
    own = model.parameters.users[number] if known else model.mean_user
    vectors = [own.astype(np.float64)]
    for column, value in zip(queries.rows.column, queries.rows.value):
        names.append(model.space.query.label(column))
        vectors.append(float(value) * model.parameters.query[column].astype(np.float64))
    factors = model.parameters.users.shape[1]
    return names, np.array(vectors).reshape(len(names), factors)


def _item_parts(model: Explained, item: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels, scaled vectors and biases of what is asked for: the item and its attributes."""
    p, rows = model.parameters, model.item_rows.take(np.array([item]))
    names = [f"item={model.space.items.ids[item]}", *map(model.space.item.label, rows.column)]
    own = p.items[item].astype(np.float64)[None]
    vectors = np.vstack([own, rows.value[:, None] * p.features[rows.column].astype(np.float64)])
    biases = np.append(p.item_bias[item], rows.value * p.feature_bias[rows.column])
    return names, vectors, biases
