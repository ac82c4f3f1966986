"""A score taken apart: every pair of a query feature and an item feature, and the constants."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.engine.contract import Meeting, Triples
from fmpair.engine.item_side import pair_columns
from fmpair.features import FeatureSpace
from fmpair.fitted.question import Queries
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
    def triples(self) -> Triples | None: ...
    @property
    def taken_off(self) -> np.ndarray: ...
    @property
    def damping(self) -> float: ...


NONE = np.zeros(0, np.int32)
Term = tuple[str, str, float]  # of the query, of the item, and what the two add to the score


class Part(NamedTuple):
    """Some of a query or of an item: labels, scaled vectors, and the features they are of."""

    names: list[str]
    vectors: np.ndarray
    column: np.ndarray


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
    own, biases = _item_parts(model, item)
    pairs = pair_columns(asking.vectors.shape[1], model.triples)
    query_vectors, item_vectors = asking.vectors[:, :pairs], own.vectors[:, :pairs]
    terms = [
        (q, i, float(value))
        for q, row in zip(asking.names, query_vectors @ item_vectors.T)
        for i, value in zip(own.names, row)
    ]
    terms += [("", name, float(bias)) for name, bias in zip(own.names, biases)]
    inner = item_vectors @ item_vectors.T
    terms += [
        ("", f"{own.names[a]} x {own.names[b]}", float(inner[a, b]))
        for a, b in combinations(range(len(own.names)), 2)
    ]
    if model.triples is not None:
        terms += _triple_terms(model.triples, asking, own, pairs)
    moves = told.vectors @ model.item_vectors[item].astype(np.float64)
    terms += [(name, own.names[0], float(value)) for name, value in zip(told.names, moves)]
    if model.damping:
        terms.append(("", "damping", -float(model.taken_off[item])))
    terms.sort(key=lambda term: -abs(term[2]))
    return terms


def _triple_terms(triples: Triples, asking: Part, own: Part, first: int) -> list[Term]:
    """Two features of one side and one of the other: those that meet; first: of their columns."""
    query, item = asking.vectors[:, first:], own.vectors[:, first:]
    terms = [
        (couple, name, float(product @ vector))
        for couple, product in _couples(triples.query, asking, query)
        for name, vector in zip(own.names, item)
    ]
    return terms + [
        (name, couple, float(product @ vector))
        for couple, product in _couples(triples.item, own, item)
        for name, vector in zip(asking.names, query)
    ]


def _couples(meeting: Meeting, part: Part, vectors: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Labels and products of the features of a side that meet, the id first."""
    group = np.append(meeting.own, meeting.group[part.column])
    return [
        (f"{part.names[a]} x {part.names[b]}", vectors[a] * vectors[b])
        for a, b in combinations(range(len(part.names)), 2)
        if meeting.meets[group[a], group[b]]
    ]


def _history_parts(model: Explained, queries: Queries, place: int) -> Part:
    """Labels and vectors of the items that a visitor, or a user lately, has looked at.

    None where the model has features of them.
    """
    if queries.history is None or model.space.history is not None:
        return Part([], np.zeros((0, model.item_vectors.shape[1])), NONE)
    told = queries.history.take(np.array([place])).column
    names = [f"history={model.space.items.ids[int(item)]}" for item in told]
    moves = moves_of_items(model, int(queries.user[place]), told)
    return Part(names, moves.astype(np.float64), told)


def _query_parts(model: Explained, queries: Queries, place: int) -> Part:
    """Labels and scaled vectors of what asks: the user and every query feature."""
    number = int(queries.user[place])
    here = slice(*queries.rows.start[place : place + 2])
    columns = queries.rows.column[here]
    known = number >= 0
    names = [f"user={model.space.users.ids[number]}" if known else "a usual user"]
    own = model.parameters.users[number] if known else model.mean_user
    vectors = [own.astype(np.float64)]
    for column, value in zip(columns, queries.rows.value[here]):
        names.append(model.space.query.label(column))
        vectors.append(float(value) * model.parameters.query[column].astype(np.float64))
    factors = model.parameters.users.shape[1]
    return Part(names, np.array(vectors).reshape(len(names), factors), columns)


def _item_parts(model: Explained, item: int) -> tuple[Part, np.ndarray]:
    """What is asked for, the item and its attributes, and their biases."""
    p, rows = model.parameters, model.item_rows.take(np.array([item]))
    names = [f"item={model.space.items.ids[item]}", *map(model.space.item.label, rows.column)]
    own = p.items[item].astype(np.float64)[None]
    vectors = np.vstack([own, rows.value[:, None] * p.features[rows.column].astype(np.float64)])
    biases = np.append(p.item_bias[item], rows.value * p.feature_bias[rows.column])
    return Part(names, vectors, rows.column), biases
