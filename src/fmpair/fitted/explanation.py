"""The terms of a score: each pair of a query feature and an item feature, and the constants."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Meeting, Triples
from fmpair.engine.item_side import pair_columns
from fmpair.fitted.factor_model import FactorModel
from fmpair.fitted.question import Queries, Term

NONE = np.zeros(0, np.int32)


class Part(NamedTuple):
    """Features of a query or of an item: labels, scaled vectors, and feature numbers."""

    names: list[str]
    vectors: np.ndarray
    column: np.ndarray


def terms_of(
    model: FactorModel, queries: Queries, row: int, items: Iterable[int]
) -> list[list[Term]]:
    """Return the terms of each item's score for one query, largest first."""
    query, history = _query_parts(model, queries, row), _history_parts(model, queries, row)
    return [_terms(model, query, history, item) for item in items]


def _terms(model: FactorModel, query: Part, history: Part, item: int) -> list[Term]:
    """Return the terms of one item; history: the vectors that past items add to the query."""
    features, biases = _item_parts(model, item)
    pairs = pair_columns(query.vectors.shape[1], model.triples)
    query_vectors, item_vectors = query.vectors[:, :pairs], features.vectors[:, :pairs]
    terms = [
        (q, i, float(value))
        for q, row in zip(query.names, query_vectors @ item_vectors.T)
        for i, value in zip(features.names, row)
    ]
    terms += [("", name, float(bias)) for name, bias in zip(features.names, biases)]
    inner = item_vectors @ item_vectors.T
    terms += [
        ("", f"{features.names[a]} x {features.names[b]}", float(inner[a, b]))
        for a, b in combinations(range(len(features.names)), 2)
    ]
    if model.triples is not None:
        terms += _triple_terms(model.triples, query, features, pairs)
    moves = history.vectors @ model.item_vectors[item].astype(np.float64)
    terms += [(name, features.names[0], float(value)) for name, value in zip(history.names, moves)]
    if model.damping:
        terms.append(("", "damping", -float(model.popularity_penalty[item])))
    terms.sort(key=lambda term: -abs(term[2]))
    return terms


def _triple_terms(triples: Triples, query: Part, item: Part, first: int) -> list[Term]:
    """Return the third-order terms; first: the first column of their factors in the vectors."""
    query_vectors, item_vectors = query.vectors[:, first:], item.vectors[:, first:]
    terms = [
        (couple, name, float(product @ vector))
        for couple, product in _couples(triples.query, query, query_vectors)
        for name, vector in zip(item.names, item_vectors)
    ]
    return terms + [
        (name, couple, float(product @ vector))
        for couple, product in _couples(triples.item, item, item_vectors)
        for name, vector in zip(query.names, query_vectors)
    ]


def _couples(meeting: Meeting, part: Part, vectors: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return label and product of each feature pair of a side that takes part in triples."""
    group = np.append(meeting.own, meeting.group[part.column])
    return [
        (f"{part.names[a]} x {part.names[b]}", vectors[a] * vectors[b])
        for a, b in combinations(range(len(part.names)), 2)
        if meeting.meets[group[a], group[b]]
    ]


def _history_parts(model: FactorModel, queries: Queries, row: int) -> Part:
    """Return the items of a query's history; empty if the model encodes them as features."""
    if queries.history is None or model.space.history is not None:
        return Part([], np.zeros((0, model.item_vectors.shape[1])), NONE)
    items = queries.history.take(np.array([row])).column
    names = [f"history={model.space.items.ids[int(item)]}" for item in items]
    moves = model.item_moves(int(queries.user[row]), items)
    return Part(names, moves.astype(np.float64), items)


def _query_parts(model: FactorModel, queries: Queries, row: int) -> Part:
    """Return the user and every query feature."""
    number = int(queries.user[row])
    here = slice(*queries.rows.start[row : row + 2])
    columns = queries.rows.column[here]
    known = number >= 0
    names = [f"user={model.space.users.ids[number]}" if known else "a usual user"]
    user = model.parameters.users[number] if known else model.mean_user
    vectors = [user.astype(np.float64)]
    for column, value in zip(columns, queries.rows.value[here]):
        names.append(model.space.query.label(column))
        vectors.append(float(value) * model.parameters.query[column].astype(np.float64))
    factors = model.parameters.users.shape[1]
    return Part(names, np.array(vectors).reshape(len(names), factors), columns)


def _item_parts(model: FactorModel, item: int) -> tuple[Part, np.ndarray]:
    """Return the item and its attributes, and their biases."""
    p, rows = model.parameters, model.item_rows.take(np.array([item]))
    names = [f"item={model.space.items.ids[item]}", *map(model.space.item.label, rows.column)]
    vector = p.items[item].astype(np.float64)[None]
    vectors = np.vstack([vector, rows.value[:, None] * p.features[rows.column].astype(np.float64)])
    biases = np.append(p.item_bias[item], rows.value * p.feature_bias[rows.column])
    return Part(names, vectors, rows.column), biases
