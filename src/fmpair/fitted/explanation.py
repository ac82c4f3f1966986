"""The terms of a score: each pair of a query feature and an item feature, and the constants.

The content of items, their lists and vectors, has terms with the query only. Training sets the
item's constant so that it cancels the products within the content (`training/content.py`), so these
products are part of that constant here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Meeting, Triples
from fmpair.engine.item_side import pair_columns
from fmpair.features import Side
from fmpair.features.encoder import Encoder
from fmpair.fitted.factor_model import FactorModel
from fmpair.fitted.question import Queries, Term

NONE = np.zeros(0, np.int32)
MAX_COMPARED = 1_000  # items of a user that an item is compared with
NAMED, MIN_ALIKE = 2, 0.2  # similar items that are named, and the least cosine of their vectors


class Part(NamedTuple):
    """Features of a query or of an item: labels, scaled vectors, and feature numbers.

    names: one label for all dimensions of a vector, else one per feature. label: the position in
    `names` of each feature's label, None if every feature has its own. fields: the field of each
    name, None for an id.
    """

    names: list[str]
    vectors: np.ndarray
    column: np.ndarray
    label: np.ndarray | None = None
    fields: Sequence[Encoder | None] = ()

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """Sum numbers of features [features, ...] by label: [names, ...]."""
        if self.label is None:
            return numbers
        return np.add.reduceat(numbers, np.flatnonzero(np.diff(self.label, prepend=-1)))

    def is_content(self, name: int) -> bool:
        """Return whether a name is of a list or vector of an item."""
        field = self.fields[name]
        return field is not None and field.is_content

    def of_pair(self, a: int, b: int) -> str:
        """Return the label of a product of two names; that of a vector counts as the vector's."""
        for name in (a, b):
            field = self.fields[name]
            if field is not None and field.is_vector:
                return self.names[name]
        return f"{self.names[a]} x {self.names[b]}"


def terms_of(
    model: FactorModel, queries: Queries, row: int, items: Iterable[int]
) -> list[list[Term]]:
    """Return the terms of each item's score for one query, largest first."""
    query, history = _query_parts(model, queries, row), _history_parts(model, queries, row)
    known = _known_items(model, queries, row)
    return [_terms(model, query, history, item, known) for item in items]


def _terms(
    model: FactorModel, query: Part, history: Part, item: int, known: np.ndarray
) -> list[Term]:
    """Return the terms of one item; history: the vectors that past items add to the query.

    known: items of the user. The label of a vector of the item names the most similar of them.
    """
    features, biases = _item_parts(model, item, known)
    pairs = pair_columns(query.vectors.shape[1], model.triples)
    query_vectors, item_vectors = query.vectors[:, :pairs], features.vectors[:, :pairs]
    terms = [
        (q, i, float(value))
        for q, row in zip(query.names, query.added(query_vectors) @ features.added(item_vectors).T)
        for i, value in zip(features.names, row)
    ]
    every = np.ones((len(features.names),) * 2, bool)
    alone = [(n, n, bias) for n, bias in enumerate(features.added(biases))]
    for a, b, value in (*alone, *_products(features, item_vectors, every)):
        name = features.names[a] if a == b else features.of_pair(a, b)
        if features.is_content(a) or features.is_content(b):
            name = features.names[0]
        terms.append(("", name, float(value.sum())))
    if model.triples is not None:
        terms += _triple_terms(model.triples, query, features, pairs)
    moves = history.vectors @ model.item_vectors[item].astype(np.float64)
    terms += [(name, features.names[0], float(value)) for name, value in zip(history.names, moves)]
    if model.damping:
        terms.append(("", "damping", -float(model.popularity_penalty[item])))
    sums: dict[tuple[str, str], float] = {}
    for q, i, value in terms:
        sums[q, i] = sums.get((q, i), 0.0) + value
    return sorted(((q, i, value) for (q, i), value in sums.items()), key=lambda term: -abs(term[2]))


def _triple_terms(triples: Triples, query: Part, item: Part, first: int) -> list[Term]:
    """Return the third-order terms; first: the first column of their factors in the vectors."""
    query_vectors, item_vectors = query.vectors[:, first:], item.vectors[:, first:]
    terms = [
        (couple, name, float(product @ vector))
        for couple, product in _couples(triples.query, query, query_vectors)
        for name, vector in zip(item.names, item.added(item_vectors))
    ]
    return terms + [
        (name, couple, float(product @ vector))
        for couple, product in _couples(triples.item, item, item_vectors)
        for name, vector in zip(query.names, query.added(query_vectors))
    ]


def _couples(meeting: Meeting, part: Part, vectors: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return label and product of each feature pair of a side that takes part in triples."""
    first = np.append(0, part.added(np.ones(len(vectors))).cumsum()[:-1]).astype(int)
    group = np.append(meeting.own, meeting.group[part.column])[first]
    products = _products(part, vectors, meeting.meets[np.ix_(group, group)] > 0)
    return [(part.of_pair(a, b), product) for a, b, product in products]


def _products(
    part: Part, vectors: np.ndarray, meets: np.ndarray
) -> list[tuple[int, int, np.ndarray]]:
    """Return the positions and the product of each pair of names; meets: bool [names, names].

    The dimensions of a vector form pairs with each other too. Their sum is half of the square of
    the sum minus the sum of the squares.
    """
    sums, squares = part.added(vectors), part.added(vectors**2)
    pairs = [(a, b, sums[a] * sums[b]) for a, b in combinations(range(len(sums)), 2) if meets[a, b]]
    has_several = part.added(np.ones(len(vectors))) > 1
    return pairs + [
        (a, a, (sums[a] ** 2 - squares[a]) / 2)
        for a in range(len(sums))
        if has_several[a] and meets[a, a]
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
    entries = slice(*queries.rows.start[row : row + 2])
    columns = queries.rows.column[entries]
    known = number >= 0
    name = f"user={model.space.users.ids[number]}" if known else "a usual user"
    user = model.parameters.users[number] if known else model.mean_user
    scaled = queries.rows.value[entries, None] * model.parameters.query[columns].astype(np.float64)
    names, label, fields = _names(model.space.query, name, columns)
    return Part(names, np.vstack([user.astype(np.float64)[None], scaled]), columns, label, fields)


def _item_parts(model: FactorModel, item: int, known: np.ndarray) -> tuple[Part, np.ndarray]:
    """Return the item and its attributes, and their biases."""
    p, rows = model.parameters, model.item_rows.take(np.array([item]))
    own = f"item={model.space.items.ids[item]}"
    names, label, fields = _names(model.space.item, own, rows.column)
    alike = {e.name: _alike(model, first, e.size, item, known) for first, e in _vectors(model)}
    names = [f"{name} (like {alike[name]})" if alike.get(name) else name for name in names]
    vector = p.items[item].astype(np.float64)[None]
    vectors = np.vstack([vector, rows.value[:, None] * p.features[rows.column].astype(np.float64)])
    biases = np.append(p.item_bias[item], rows.value * p.feature_bias[rows.column])
    return Part(names, vectors, rows.column, label, fields), biases


# Fields of kind `vector`: one name for all their features.


def _names(
    side: Side, id_name: str, columns: np.ndarray
) -> tuple[list[str], np.ndarray | None, list[Encoder | None]]:
    """Return `names`, `label` and `fields` of a Part: the id first, then its features."""
    field = np.searchsorted(side.offsets, columns, side="right") - 1
    vector = np.array([e.is_vector for e in side.encoders], bool)
    begins = ~vector[field] | (np.diff(field, prepend=-1) != 0)
    fields = [side.encoders[f] for f in field[begins]]
    names = [
        e.name if e.is_vector else side.label(column) for e, column in zip(fields, columns[begins])
    ]
    label = None if begins.all() else np.append(0, np.cumsum(begins))
    return [id_name, *names], label, [None, *fields]


def _vectors(model: FactorModel) -> list[tuple[int, Encoder]]:
    return [(first, e) for first, e in model.space.item.of_role("item") if e.is_vector]


def _known_items(model: FactorModel, queries: Queries, row: int) -> np.ndarray:
    """Return items of the query's user, none if the model has no fields of kind `vector`."""
    if not _vectors(model):
        return NONE
    known = model.seen_by(queries.user[row : row + 1]).column
    if queries.history is not None:
        known = np.union1d(known, queries.history.take(np.array([row])).column)
    return known[:MAX_COMPARED]


def _alike(model: FactorModel, first: int, size: int, item: int, known: np.ndarray) -> str:
    """Return the ids of the known items whose vectors are most similar, perhaps none."""
    others = known[known != item]
    rows = model.item_rows.take(np.append(item, others))
    inside = (rows.column >= first) & (rows.column < first + size)
    owner = rows.owner[inside][::size]
    vectors = rows.value[inside].reshape(-1, size)
    if not len(owner) or owner[0] != 0:
        return ""
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = vectors[1:] @ vectors[0] / (lengths[1:] * lengths[0])
    best = np.argsort(-cosine, kind="stable")[:NAMED]
    near = others[owner[1:][best[cosine[best] > MIN_ALIKE]] - 1]
    return ", ".join(str(model.space.items.ids[int(i)]) for i in near)
