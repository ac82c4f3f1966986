"""Regularisation: features grouped by field, and the penalty of every table and feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fmpair.arrays import Rows, add_repeats, distinct_pairs, group_rows, tally
from fmpair.engine.contract import Groups, L2Scale, Problem, TripleL2
from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace, Side
from fmpair.features.encoder import Encoder
from fmpair.features.history_fields import HISTORY
from fmpair.training.defaults import L2, RAMP, FieldL2

ONE_HOT = ("categorical", "binned")
VECTORS = 500  # vectors enough to tell how much they have in common
AT_ONCE = 512  # rows that stay in the cache
ENTRIES = 5_000_000  # values of chosen items enough to tell whether content matters
SAMPLE = 200_000  # events enough to tell whether a value belongs to few users or to many
ITEM_SHARING = 0.5  # with 0 attributes dominate item vectors, with 1 new items are learned too late

# A field's regularisation follows its strength, see `engine.strata.field_regularisation`. A value
# of few users (items) repeats their own vectors, so its field needs a larger gradient to count.
FEW = 25.0

# What a recipe's regularization may name besides fields.
GROUPS = (
    "user", "item", "negative", "bias", "context", "user_features", "item_features", "history",
    "user3", "item3", "fields3",
)  # fmt: skip
ROLES = {
    "context": "context", "user": "user_features", "item": "item_features", HISTORY: HISTORY
}  # fmt: skip


# Features grouped by field.


def query_groups(
    side: Side,
    profiles: Rows,
    user: np.ndarray,
    contexts: Rows,
    situation: np.ndarray,
    sharing: float | None = None,
) -> Groups:
    """Return the groups of the query side; fields with one value per row are centred (mean zero).

    Such a field then says how a situation differs from the average one, and a query without the
    field means an unknown value. Otherwise its vectors would share a part that every query has: a
    second popularity, which the regularisation of item biases does not reach.
    """
    times = _times(profiles, user, side) + _times(contexts, situation, side)
    before = np.array([e.role == HISTORY for e in side.encoders], bool)
    one_hot = np.array([e.field.kind in ONE_HOT for e in side.encoders], bool) & ~before
    values = _values_by_user(
        side.only(contexts, [not e.is_vector for e in side.encoders]),
        situation,
        user,
        profiles.size,
    )
    owners = np.bincount(profiles.column, minlength=side.size)
    owners = owners + np.bincount(values.column, minlength=side.size)
    owners = vector_owners(owners, side, profiles.size, profiles, contexts)
    powers = loyalty(values, side.field_numbers(), len(side.encoders))
    powers[[e.role == "user" for e in side.encoders]] = 1.0  # attributes never change
    if sharing is not None:
        powers = np.full(len(powers), sharing)
    # histories identify users too, but take full steps
    return _groups(side, times, owners, one_hot, np.where(before, 0.0, powers))


def item_groups(
    side: Side,
    rows: Rows,
    item: np.ndarray,
    sharing: float | None = None,
    full_steps: np.ndarray | None = None,
) -> Groups:
    """Return the groups of the item side; none is centred, since what all items share cancels.

    full_steps: bool [fields], see `predictive_lists`; most of their values are rare and would
    hardly be learned by smaller steps.
    """
    owners = vector_owners(tally(rows.column, side.size), side, rows.size, rows)
    none = np.zeros(len(side.encoders), bool)
    powers = np.full(len(none), ITEM_SHARING if sharing is None else sharing)
    if full_steps is not None and sharing is None:
        powers[full_steps] = 0.0
    return _groups(side, _times(rows, item, side), owners, none, powers)


def predictive_lists(side: Side, rows: Rows, user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Return which fields of items are lists that predict choices: bool [fields].

    user, item: of the events; without events every list counts. Other lists, such as words of
    titles, would be noise with full steps.
    """
    predictive = np.zeros(len(side.encoders), bool)
    for number, encoder in enumerate(side.encoders):
        if encoder.owners:
            content = side.only(rows, np.arange(len(predictive)) == number)
            predictive[number] = not len(user) or affinity(content, side.size, user, item) > 0
    return predictive


def affinity(content: Rows, size: int, user: np.ndarray, item: np.ndarray) -> float:
    """Return how much more similar items of one user are than items of different users.

    content: of items, over `size` features; similarity is the inner product. Popular items cancel,
    because they are on both sides of the difference. If there are many users, some are sampled.
    """
    lengths = np.diff(content.start)
    every = int(lengths[item].sum()) // ENTRIES + 1
    mine = user % every == 0
    seen = distinct_pairs(user[mine] // every, item[mine], int(user.max(initial=0)) // every + 1)
    count, entries = np.diff(seen.start).astype(np.float64), content.take(seen.column)
    owner = seen.owner[entries.owner]
    profiles = add_repeats(group_rows(owner, entries.column, seen.size, entries.value))
    value, user_of = profiles.value.astype(np.float64), profiles.owner
    alone = np.bincount(owner, entries.value.astype(np.float64) ** 2, seen.size)
    whole = np.bincount(user_of, value**2, seen.size)
    total = np.bincount(profiles.column, value, size)
    across = np.bincount(user_of, value * total[profiles.column], seen.size)
    able = (count > 1) & (count < count.sum())
    within = (whole - alone)[able] / (count[able] - 1)
    between = (across - whole)[able] / (count.sum() - count[able])
    return float((within - between).sum() / max(count[able].sum(), 1))


def vector_owners(owners: np.ndarray, side: Side, count: int, *parts: Rows) -> np.ndarray:
    """Return the number of owners of each feature, with those of fields of vectors filled in.

    A step for one row moves the score of another by the squared inner product of their vectors,
    which is 1 for equal categories. So the mean of these squares over sampled pairs of rows is the
    share of the `count` users or items that own a vector.
    """
    out = owners.astype(np.float64)
    for first, encoder in zip(side.offsets, side.encoders):
        if not encoder.is_vector or not encoder.size or encoder.role == HISTORY:
            continue
        inside = slice(first, first + encoder.size)
        matrix = np.vstack([_vectors(rows, inside) for rows in parts])
        products = np.einsum("ad,bd->ab", matrix, matrix) ** 2  # not by BLAS: same bits anywhere
        alone = np.trace(products)
        pairs, squares = len(matrix) * (len(matrix) - 1), np.einsum("ad,ad->", matrix, matrix)
        usual = (squares / max(len(matrix), 1)) ** 2
        share = (products.sum() - alone) / max(pairs * usual, 1e-30)
        out[inside] = 1 + (count - 1) * share
    return out


def _vectors(rows: Rows, inside: slice) -> np.ndarray:
    """Return a sample of the vectors of a field: float64 [rows, features]."""
    width = inside.stop - inside.start
    long = np.flatnonzero(np.diff(rows.start) >= width)
    some = rows.take(long[np.linspace(0, len(long) - 1, min(len(long), VECTORS)).astype(int)])
    in_field = (some.column >= inside.start) & (some.column < inside.stop)
    return some.value[in_field].astype(np.float64).reshape(-1, width)


def loyalty(values: Rows, field: np.ndarray, fields: int) -> np.ndarray:
    """Return how strongly the values of each field identify users: float64 [fields].

    values: by user, the values of their events with counts. Two events of one user have the same
    value with probability p, any two events with q. The result is (p - q) / (1 - q): 0 for a
    context that changes freely, 1 for an attribute of users. Training visits events user by user,
    so steps of a value that identifies users would follow the current user.
    """
    times, value_field = values.value.astype(np.float64), field[values.column]
    of_user = values.owner.astype(np.int64) * fields + value_field
    whole = np.bincount(of_user, times, minlength=values.size * fields)
    others = whole[of_user] - 1
    able = others > 0
    agree = np.bincount(value_field[able], (times * (times - 1))[able] / others[able], fields)
    within = agree / np.maximum(np.bincount(value_field[able], times[able], fields), 1)
    events = np.bincount(values.column, times, len(field))
    share = events / np.maximum(np.bincount(field, events, fields), 1)[field]
    chance = np.bincount(field, share**2, fields)
    return np.clip((within - chance) / np.maximum(1 - chance, 1e-9), 0.0, 1.0)


def _groups(
    side: Side, times: np.ndarray, owners: np.ndarray, centred: np.ndarray, sharing: np.ndarray
) -> Groups:
    """Return groups from times and owners by feature, centred and sharing by field."""
    field, fields = side.field_numbers(), len(side.encoders)
    total = np.bincount(field, weights=times, minlength=fields)[field]
    share = times / np.maximum(total, 1)
    usual = np.bincount(field, weights=share * owners, minlength=fields)
    powers = sharing[field].astype(np.float32)
    shares, owned = share.astype(np.float32), usual[field].astype(np.float32)
    return Groups(field, shares, owned, powers, centred[field])


def _values_by_user(contexts: Rows, situation: np.ndarray, user: np.ndarray, users: int) -> Rows:
    """Return the context values of each user in a sample of events, with counts."""
    every = slice(None, None, max(len(user) // SAMPLE, 1))
    rows = contexts.take(situation[every])
    return distinct_pairs(user[every][rows.owner], rows.column, users)


def _times(rows: Rows, number: np.ndarray, side: Side) -> np.ndarray:
    """Count the events of each feature, given each event's row number: float64 [features].

    A dimension of a vector counts by its square, its share of the vector's length.
    """
    events, lengths = tally(number, rows.size).astype(np.float64), np.diff(rows.start)
    if side.size and len(side.encoders) == 1 and side.encoders[0].is_vector:  # many values
        return _squares(rows.value.reshape(-1, side.size), events[lengths > 0])
    weight = np.repeat(events, lengths)
    vector = np.repeat([e.is_vector for e in side.encoders], [e.size for e in side.encoders])
    if vector.any():
        square = rows.value.astype(np.float64) ** 2
        np.multiply(weight, square, out=weight, where=vector.all() or vector[rows.column])
    return np.bincount(rows.column, weights=weight, minlength=side.size)


def _squares(matrix: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the sum of the squares of each column, rows weighted: float64 [columns]."""
    out = np.zeros(matrix.shape[1])
    for first in range(0, len(matrix), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        out += np.einsum("r,rc->c", weight[some], np.square(matrix[some], dtype=np.float64))
    return out


# Penalties.


def penalties(
    given: float | Mapping[str, float] | None,
    space: FeatureSpace,
    problem: Problem,
    usual: L2,
    of_fields: FieldL2,
    full: bool = False,
) -> dict[str, Any]:
    """Return the penalties by their names in `Settings`, from recipe, fields and defaults.

    usual, of_fields: the defaults of ids and of fields. A feature has a fixed penalty, or a
    threshold above 0 and a penalty that follows its field's strength. full: whether lists that
    predict choices take full steps; then only they have the penalty of items.
    """
    if given is None:
        named: Mapping[str, float] = {}
    else:
        named = given if isinstance(given, Mapping) else {"user": given, "item": given}
    fields = [e.name for side in (space.query, space.item) for e in side.encoders]
    for name in named:
        if name not in GROUPS and name not in fields:
            raise OptionError(unknown("regularization", name, [*GROUPS, *fields]))
    item = named.get("item", usual.item)
    named = {HISTORY: usual.history, **named}
    query, query_threshold = _by_feature(space.query, problem.query_groups, named, of_fields)
    if "item_features" not in named:
        steps = problem.item_groups.sharing
        of_role = space.item.of_role("item")
        like_ids = [e.name for first, e in of_role if e.owners and not (full and steps[first] > 0)]
        named = {**dict.fromkeys(like_ids, item), **named}
    features, feature_threshold = _by_feature(space.item, problem.item_groups, named, of_fields)
    return {
        "user": named.get("user", usual.user),
        "positive": item,
        "negative": named.get("negative", item),
        "bias": named.get("bias", usual.bias),
        "query": query,
        "features": features,
        "query_threshold": query_threshold,
        "feature_threshold": feature_threshold,
        "strongest": of_fields.strongest,
    }


def triple_l2(
    given: float | Mapping[str, float] | None,
    space: FeatureSpace,
    problem: Problem,
    usual: L2,
    of_fields: FieldL2,
) -> TripleL2 | None:
    """Return the penalties of vectors of triples, or None if there are none."""
    if problem.triples is None:
        return None
    named = given if isinstance(given, Mapping) else {}
    fields = named.get("fields3")
    by_role = {HISTORY: usual.history3} if fields is None else dict.fromkeys(ROLES.values(), fields)
    query, query_threshold = _by_feature(space.query, problem.query_groups, by_role, of_fields)
    features, feature_threshold = _by_feature(space.item, problem.item_groups, by_role, of_fields)
    ids = (named.get("user3", usual.user3), named.get("item3", usual.item))
    return TripleL2(*ids, query, features, query_threshold, feature_threshold, RAMP)


def l2_scale_of(power: float, problem: Problem, seen: Rows | None) -> L2Scale | None:
    """Return the scale of a step's regularisation for every user and item; None if all are 1.

    seen: the items of each user with counts, None for those of the problem's events.
    """
    if power == 1:
        return None
    user, item, times = (problem.user, problem.item, None)
    if seen is not None:
        user, item, times = (seen.owner, seen.column, seen.value)
    by_user = tally(user, problem.users, times).astype(float)
    by_item = tally(item, problem.items, times).astype(float)
    known = by_item > 0
    # an item is also regularised as a negative, as often as the mean item has events
    by_item[known] += by_item[known].mean()
    return L2Scale(l2_scales(by_user, power), l2_scales(by_item, power))


def l2_scales(steps: np.ndarray, power: float) -> np.ndarray:
    """Return the scale of regularisation per step, for rows with so many steps: float32 [rows].

    A row's total is proportional to its steps to the power; the sum over all rows is the same as
    with a scale of 1.
    """
    out = np.ones(len(steps))
    busy = steps > 0
    scale = steps[busy] ** (power - 1)
    out[busy] = scale * (steps[busy].sum() / (steps[busy] * scale).sum())
    return out.astype(np.float32)


def _by_feature(
    side: Side, groups: Groups, named: Mapping[str, float], usual: FieldL2
) -> tuple[np.ndarray, np.ndarray]:
    """Return the fixed penalty and the threshold of every feature: float32 [features] each."""
    given = [_given(encoder, named) for encoder in side.encoders]
    fixed = np.array([0.0 if value is None else value for value in given], np.float32)
    adaptive = np.array([value is None for value in given], bool)
    few = np.sqrt(np.maximum(1, FEW / np.maximum(groups.owners, 1)))
    least = usual.free + (usual.bound - usual.free) * groups.sharing
    threshold = np.where(adaptive[groups.field], least * few, 0).astype(np.float32)
    return fixed[groups.field], threshold


def _given(encoder: Encoder, named: Mapping[str, float]) -> float | None:
    """Return the penalty given by the field's options, its name or its role, else None."""
    if encoder.field.regularization is not None:
        return encoder.field.regularization
    return named.get(encoder.name, named.get(ROLES[encoder.role]))
