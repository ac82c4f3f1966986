"""A score taken apart: every pair of a query feature and an item feature, and the constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.features import FeatureSpace
from fmpair.fitted.query import Queries
from fmpair.fitted.visitor import Known, moves_of_items


class Explained(Known, Protocol):
    """What a score is made of: see `Recommender`."""

    @property
    def space(self) -> FeatureSpace: ...
    @property
    def item_rows(self) -> Rows: ...
    @property
    def mean_user(self) -> np.ndarray: ...
    @property
    def taken_off(self) -> np.ndarray: ...
    @property
    def damping(self) -> float: ...


Term = tuple[str, str, float]  # of the query, of the item, and what the two add to the score
Part = tuple[list[str], np.ndarray]  # labels, vectors


def explain_terms(model: Explained, queries: Queries, item: int) -> pl.DataFrame:
    """(query, item, value) of the first query, largest first; the values add up to the score."""
    return as_frame(terms_of(model, queries, 0, [item])[0])


def as_frame(terms: list[Term]) -> pl.DataFrame:
    """(query, item, value): a row for each term."""
    schema = {"query": pl.String, "item": pl.String, "value": pl.Float64}
    return pl.DataFrame(terms, schema=schema, orient="row")


def terms_of(
    model: Explained, queries: Queries, place: int, items: Iterable[int]
) -> list[list[Term]]:
    """The terms of each item's score, largest first; place: of the query."""
    asking, told = _query_parts(model, queries, place), _history_parts(model, queries, place)
    return [_terms(model, asking, told, item) for item in items]


def _terms(model: Explained, asking: Part, told: Part, item: int) -> list[Term]:
    """Of one item; told: what a history adds to the folded vector of a query."""
    query_names, query_vectors = asking
    item_names, item_vectors, biases = _item_parts(model, item)
    terms = [
        (q, i, float(value))
        for q, row in zip(query_names, query_vectors @ item_vectors.T)
        for i, value in zip(item_names, row)
    ]
    terms += [("", name, float(bias)) for name, bias in zip(item_names, biases)]
    inner = item_vectors @ item_vectors.T
    terms += [
        ("", f"{item_names[a]} x {item_names[b]}", float(inner[a, b]))
        for a in range(len(item_names))
        for b in range(a + 1, len(item_names))
    ]
    moves = told[1] @ model.item_vectors[item].astype(np.float64)
    terms += [(name, item_names[0], float(value)) for name, value in zip(told[0], moves)]
    if model.damping:
        terms.append(("", "damping", -float(model.taken_off[item])))
    terms.sort(key=lambda term: -abs(term[2]))
    return terms


def _history_parts(model: Explained, queries: Queries, place: int) -> Part:
    """Labels and vectors of the items that a visitor, or a user lately, has looked at.

    None where the model has features of them.
    """
    if queries.history is None or model.space.history is not None:
        return [], np.zeros((0, model.item_vectors.shape[1]))
    told = queries.history.take(np.array([place])).column
    names = [f"history={model.space.items.ids[int(item)]}" for item in told]
    return names, moves_of_items(model, int(queries.user[place]), told).astype(np.float64)


def _query_parts(model: Explained, queries: Queries, place: int) -> Part:
    """Labels and scaled vectors of what asks: the user and every query feature."""
    number = int(queries.user[place])
    own_rows = slice(*queries.rows.start[place : place + 2])
    known = number >= 0
    names = [f"user={model.space.users.ids[number]}" if known else "a usual user"]
    own = model.parameters.users[number] if known else model.mean_user
    vectors = [own.astype(np.float64)]
    for column, value in zip(queries.rows.column[own_rows], queries.rows.value[own_rows]):
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
