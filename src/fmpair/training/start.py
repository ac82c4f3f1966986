"""Initial parameters: random vectors, plus a content profile if content predicts events.

From random vectors, training has to learn from events that items with the same content are alike.
A content profile contains this from the start. It projects the lists and vectors of items onto the
`factors` orthogonal directions in which users differ most. The vector of an item starts at the
projection of its content, and the vector of a user at the sum over the user's items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from fmpair.arrays import Rows, columns_device, distinct_pairs, ordered_rows
from fmpair.checks import check_vectors
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import OptionError, named
from fmpair.features import FeatureSpace, Side
from fmpair.features.history_fields import HISTORY
from fmpair.solvers.ridge import Design
from fmpair.threads import all_threads, blas_on
from fmpair.training.content import design_of, predictive_content
from fmpair.training.options import FACTORS, FMPairOptions

NORMALS = 4096  # rows of initial vectors that a thread draws at a time
MAX_FACTORS = 2048  # a larger kernel would compile for more than a minute
TRIPLE_START = 0.3  # standard deviation of the initial query vectors of triples
ROUNDS = 3  # iterations of the power method; training refines the directions anyway
SAMPLE = 500_000  # number of events from which the directions of content are computed
HELD_OUT, NEGATIVES = 5_000, 500  # events, and sampled items, from which `sharpness` is computed
SURE = 2.0  # standard errors by which content must predict events
STEPS, CLOSE = 40, 1e-6  # of `sharpness`: steps at most, and the share of it that ends them


def initial(
    options: FMPairOptions,
    space: FeatureSpace,
    problem: Problem | None = None,
    content: Sequence[bool] = (),
    design: Callable[[Sequence[bool]], Design] | None = None,
) -> Parameters:
    """Return initial parameters: random vectors of ids and histories.

    Other fields start as their option `start` says, by default at zero. problem: the events; with
    softmax, a content profile is added. content: which fields of items gradient steps do not learn;
    their profile is added to the vectors of the items themselves. design: see `add_content`.
    """
    rows = len(space.users) + len(space.items) + space.query.size + space.item.size
    triples = space.pairing.factors if space.pairing else 0
    length = options.factors or FACTORS
    check_factors(options, length + triples)
    check_vectors(rows, length + triples)
    rng = np.random.default_rng([options.seed, 0])

    in_parallel = resolve_device(options.device) != CPU  # else a GPU would wait for one thread

    def vectors(count: int, sd: float | np.ndarray, factors: int = length) -> np.ndarray:
        shape = (count, factors)
        normal = _normals(rng, *shape) if in_parallel else rng.standard_normal(shape, np.float32)
        return np.multiply(normal, np.float32(sd), out=normal)

    users = vectors(len(space.users), options.init_std)
    items = vectors(len(space.items), options.init_std)
    query = vectors(space.query.size, _starts(space.query, options.init_std))
    features = vectors(space.item.size, _starts(space.item, 0.0))
    if problem is not None and options.places_new:
        profile = add_content(users, features, space.item, problem, options, design)
        if any(content):  # the profile may also have fields that gradient steps learn
            chosen = np.repeat(content, [e.size for e in space.item.encoders]).astype(bool)
            items += profile.dot(np.where(chosen[:, None], features, 0))
            features[chosen] = 0
    tables = [users, items, query, features]
    if triples:  # if the vectors of both sides were small, gradients would vanish
        starts = (TRIPLE_START, options.init_std, TRIPLE_START, 0.0)
        of_triples = [vectors(len(table), sd, triples) for table, sd in zip(tables, starts)]
        tables = [np.hstack(both) for both in zip(tables, of_triples)]
    users, items, query, features = tables
    bias, feature_bias = np.zeros(len(items), np.float32), np.zeros(len(features), np.float32)
    return Parameters(users, items, bias, query, features, feature_bias)


def check_factors(options: FMPairOptions, factors: int) -> None:
    """Refuse more factors than a compiled kernel can have; PyTorch has no such limit."""
    if factors > MAX_FACTORS and resolve_device(options.device) == CPU:
        raise OptionError(
            f"{named('factors')} can be {MAX_FACTORS:,} at most on a CPU, not {factors:,}, since "
            "kernels are compiled for their number: most data need 32 to 256"
        )


def _normals(rng: np.random.Generator, count: int, factors: int) -> np.ndarray:
    """Draw normal numbers on all threads: float32 [count, factors].

    Every NORMALS rows have a generator of their own, so the result does not depend on the threads.
    """
    out = np.empty((count, factors), np.float32)
    parts = [out[first : first + NORMALS] for first in range(0, count, NORMALS)]

    def fill(part: np.ndarray, generator: np.random.Generator) -> None:
        generator.standard_normal(dtype=np.float32, out=part)

    with ThreadPoolExecutor(all_threads()) as pool:
        list(pool.map(fill, parts, rng.spawn(len(parts))))
    return out


def _starts(side: Side, history_std: float) -> np.ndarray:
    """Return the standard deviation of every feature's initial vector: float32 [features, 1]."""
    sizes = [e.size for e in side.encoders]
    start = [e.field.start or (history_std if e.role == HISTORY else 0.0) for e in side.encoders]
    return np.repeat(np.array(start, np.float32), sizes)[:, None]


# The content profile.


def add_content(
    users: np.ndarray, features: np.ndarray, side: Side, problem: Problem, options: FMPairOptions,
    design: Callable[[Sequence[bool]], Design] | None = None,
) -> Design:  # fmt: skip
    """Add the content profile to the vectors of users and of item features; return the content.

    design: returns some fields of items as a design, `design_of` by default.
    Directions are computed from one half of the users. The lengths of the vectors follow from how
    well such a profile predicts events of other users with other items. Fields that do not predict
    them add nothing.
    """
    design = design or partial(design_of, problem, side, threads=options.threads)
    fields = predictive_content(side, problem)
    content = design(fields)
    if not content.described.any():
        return content
    seen = distinct_pairs(problem.user, problem.item, problem.users)
    rng = np.random.default_rng([options.seed, 1])
    half, factors = rng.permutation(seen.size) % 2 == 0, features.shape[1]
    with blas_on(1):  # the same bits on any number of threads
        if sum(fields) > 1:  # a useless field would hide what the others predict
            for field in np.flatnonzero(fields):
                alone = design([number == field for number in range(len(fields))])
                fields[field] = predictive_scale(alone, seen, half, factors, rng) > 0
            content = design(fields)
        scale = predictive_scale(content, seen, half, factors, rng)
        if not scale:
            return content
        basis = directions(content, seen, half, factors, rng)
        items = content.dot(basis)
    profile = seen._replace(value=np.ones_like(seen.value)).dot(items)
    length = np.sqrt(np.einsum("uk,uk->u", profile, profile))[:, None]
    users += np.float32(scale**0.5) * profile / np.maximum(length, 1e-6)
    features += np.float32(scale**0.5 / _rms(items, content)) * basis
    return content


def predictive_scale(
    content: Design, seen: Rows, half: np.ndarray, factors: int, rng: np.random.Generator
) -> float:
    """Return the `sharpness` of a profile for users and items that its directions do not know.

    half: bool [users], those from whose events directions are computed, with half of the items. Any
    vectors, even random ones, have directions that tell the items apart they are computed from.
    """
    known = rng.permutation(content.rows.size) % 2 == 0
    learned = known[seen.column]
    pairs = ordered_rows(seen.owner[learned], seen.column[learned], seen.value[learned], seen.size)
    items = content.dot(directions(content, pairs, half, factors, rng))
    rms = _rms(items, content)
    return rms and sharpness(items / rms, seen, np.flatnonzero(~half), ~known, rng)


def _rms(items: np.ndarray, content: Design) -> float:
    """Return the root mean square length of the vectors of items with content, 0 without any."""
    described = max(np.count_nonzero(content.described), 1)
    return float(np.sqrt(np.einsum("ik,ik->", items, items) / described))


def directions(
    content: Design, seen: Rows, chosen: np.ndarray, factors: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the orthogonal directions of the content in which the chosen users differ most.

    chosen: bool [users]. float32 [features, factors]. Computed by the power method as the leading
    right singular vectors of a matrix with one row per user: the mean content of the user's items,
    times the square root of their number. Columns beyond the number of features are zero.
    """
    users = np.flatnonzero(chosen & (np.diff(seen.start) > 0))
    users = users[:: max(int(seen.start[-1]) // 2 // SAMPLE, 1)]
    rows, items = seen.take(users), content.rows.size
    weight = 1 / np.sqrt(np.maximum(np.diff(rows.start), 1))
    rows = rows._replace(value=np.repeat(weight, np.diff(rows.start)).astype(np.float32))
    user_items = Design(rows, items, threads=content.threads)
    count = min(factors, int(np.count_nonzero(content.squares)), len(users))
    out = np.zeros((content.columns, factors), np.float32)
    if not count:
        return out
    few = content.dense and len(content.squares) <= 2 * ROUNDS * count  # else the Gram costs more
    between = content.twice_of_sums(user_items) if few else None
    if between is not None:
        product = rng.standard_normal((content.columns, count), np.float32)
    else:
        on_device, shape = columns_device() is not None, (items, count)  # it would wait for one
        drawn = _normals(rng, *shape) if on_device else rng.standard_normal(shape, np.float32)
        product = content.back(drawn)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(product)[0]
        if between is not None:
            product = between.twice(basis)
        else:
            product = content.back(user_items.twice(content.dot(basis)))
    out[:, :count] = np.linalg.qr(product)[0]
    return out


def sharpness(
    items: np.ndarray, seen: Rows, users: np.ndarray, new: np.ndarray, rng: np.random.Generator
) -> float:
    """Return the scale with the highest likelihood of events of these users with new items.

    new: bool [items]. The query of an event is the sum of the user's other items, normalised. Its
    item competes with new items drawn by popularity. The scale is at most ln(items), with which a
    lead of 1 is near certainty. It is 0 where the mean lead is within SURE standard errors of 0,
    with items as clusters: such a profile may predict nothing.
    """
    rows = seen.take(users[np.diff(seen.start)[users] > 1])
    events = np.flatnonzero(new[rows.column])
    if not len(events):
        return 0.0
    event = rng.choice(events, min(HELD_OUT, len(events)), replace=False)
    total = rows._replace(value=np.ones_like(rows.value)).dot(items)[rows.owner[event]]
    chosen = items[rows.column[event]]
    query = total - chosen
    length = np.sqrt(np.einsum("ek,ek->e", query, query))[:, None]
    query /= np.maximum(length, 1e-6)
    competing = seen.column[new[seen.column]]
    drawn, times = np.unique(rng.choice(competing, NEGATIVES), return_counts=True)
    scores = np.column_stack([np.einsum("ek,ek->e", query, chosen), query @ items[drawn].T])
    lead = scores[:, 0] - scores[:, 1:] @ times / NEGATIVES
    if lead.sum() <= SURE * np.linalg.norm(np.bincount(rows.column[event], lead)):
        return 0.0
    return _most_likely(scores, np.append(1, times), float(np.log(len(items))))


def _most_likely(scores: np.ndarray, times: np.ndarray, high: float) -> float:
    """Return the scale from 0 to `high` with which the first column is likeliest in every row.

    times: how often each column competes. The likelihood is concave in the scale, so its slope is
    brought to zero by Newton's method, or by halving where that would lead out of the bounds.
    """
    behind, times = scores - scores.max(axis=1, keepdims=True), times.astype(np.float32)
    odds, weighted = np.empty_like(scores), np.empty_like(scores)
    low, scale = 0.0, 0.0
    for _ in range(STEPS):
        np.exp(np.multiply(behind, scale, out=odds), out=odds)
        odds *= times
        total = odds.sum(axis=1)
        expected = np.multiply(odds, scores, out=weighted).sum(axis=1) / total
        squares = np.multiply(weighted, scores, out=weighted).sum(axis=1) / total
        slope, variance = (scores[:, 0] - expected).mean(), (squares - expected**2).mean()
        low, high = (scale, high) if slope > 0 else (low, scale)
        before, scale = scale, scale + float(slope / variance) if variance > 0 else high
        if not low < scale < high:
            scale = (low + high) / 2
        if abs(scale - before) <= CLOSE * before:
            break
    return scale
