"""The parameters that training starts from: random ids, and what items are like.

A random start has to find out from events that items with the same content are alike. Training
starts from a content profile instead: a user's vector is the sum of those of the user's items, in
the `factors` directions of the content in which users differ most. Training improves on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fmpair.arrays import Rows, distinct_pairs
from fmpair.checks import check_vectors
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import OptionError, named
from fmpair.features import FeatureSpace, Side
from fmpair.features.history_fields import HISTORY
from fmpair.solvers.ridge import Design
from fmpair.threads import all_threads, blas_on
from fmpair.training.content import design_of, telling_content
from fmpair.training.options import FACTORS, FMPairOptions

NORMALS = 4096  # rows of initial vectors that a thread draws at a time
MAX_FACTORS = 2048  # of a kernel; compiling it takes a minute
TRIPLE_START = 0.3  # standard deviation of the initial query vectors of triples
ROUNDS = 3  # of the power method, enough for directions that training turns anyway
SAMPLE = 500_000  # events enough to find the directions of content
JUDGED, OTHERS = 5_000, 500  # events, and items beside each, that tell how sharp a profile is
STEPS = 40  # of a bisection


def initial(
    options: FMPairOptions,
    space: FeatureSpace,
    problem: Problem | None = None,
    content: Sequence[bool] = (),
) -> Parameters:
    """Return initial parameters: random ids; fields as their options say, by default zero.

    problem: the events; with softmax, lists and vectors of items start as a content profile.
    content: the fields of items that are not learned by steps; items hold their profile.
    """
    rows = len(space.users) + len(space.items) + space.query.size + space.item.size
    triples = space.pairing.factors if space.pairing else 0
    length = options.factors or FACTORS
    check_factors(options, length + triples)
    check_vectors(rows, length + triples)
    rng = np.random.default_rng([options.seed, 0])

    many = resolve_device(options.device) != CPU  # a GPU would wait for one thread

    def vectors(count: int, sd: float | np.ndarray, factors: int = length) -> np.ndarray:
        shape = (count, factors)
        normal = _normals(rng, *shape) if many else rng.standard_normal(shape, np.float32)
        return np.multiply(normal, np.float32(sd), out=normal)

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.float32)

    users = vectors(len(space.users), options.init_std)
    items = vectors(len(space.items), options.init_std)
    query = vectors(space.query.size, _starts(space.query, options.init_std))
    features = vectors(space.item.size, _starts(space.item, 0.0))
    if problem is not None and options.places_new:
        design = add_content(users, features, space.item, problem, options)
        if any(content):  # fields learned by steps may be part of the profile too
            chosen = np.repeat(content, [e.size for e in space.item.encoders]).astype(bool)
            items += design.dot(np.where(chosen[:, None], features, 0))
            features[chosen] = 0
    tables = [users, items, query, features]
    if triples:  # larger on the query side: if all were small, their gradients would vanish
        starts = (TRIPLE_START, options.init_std, TRIPLE_START, 0.0)
        of_triples = [vectors(len(table), sd, triples) for table, sd in zip(tables, starts)]
        tables = [np.hstack(both) for both in zip(tables, of_triples)]
    users, items, query, features = tables
    return Parameters(users, items, zeros(len(items)), query, features, zeros(len(features)))


def check_factors(options: FMPairOptions, factors: int) -> None:
    """Refuse more factors than a compiled kernel can have; PyTorch has no such limit."""
    if factors > MAX_FACTORS and resolve_device(options.device) == CPU:
        raise OptionError(
            f"{named('factors')} can be {MAX_FACTORS:,} at most on a CPU, not {factors:,}, since "
            "kernels are compiled for their number: most data need 32 to 256"
        )


def _normals(rng: np.random.Generator, count: int, factors: int) -> np.ndarray:
    """Draw normal numbers on all threads, NORMALS rows each; the numbers of threads do not matter.

    float32 [count, factors].
    """
    out = np.empty((count, factors), np.float32)
    parts = [out[first : first + NORMALS] for first in range(0, count, NORMALS)]

    def fill(part: np.ndarray, own: np.random.Generator) -> None:
        own.standard_normal(dtype=np.float32, out=part)

    with ThreadPoolExecutor(all_threads()) as pool:
        list(pool.map(fill, parts, rng.spawn(len(parts))))
    return out


def _starts(side: Side, of_history: float) -> np.ndarray:
    """Return the standard deviation of every feature's initial vector: float32 [features, 1]."""
    sizes = [e.size for e in side.encoders]
    start = [e.field.start or (of_history if e.role == HISTORY else 0.0) for e in side.encoders]
    return np.repeat(np.array(start, np.float32), sizes)[:, None]


# The content profile.


def add_content(
    users: np.ndarray, features: np.ndarray, side: Side, problem: Problem, options: FMPairOptions
) -> Design:
    """Add the content profile to the vectors of users and of item features; return the content.

    Directions are found with one half of the users; the other half tells how far the profile
    without an event predicts it, and so how long the vectors are. Useless content adds nothing.
    """
    content = design_of(problem, side, telling_content(side, problem), options.threads)
    if not content.described.any():
        return content
    seen = distinct_pairs(problem.user, problem.item, problem.users)
    rng = np.random.default_rng([options.seed, 1])
    half = rng.permutation(seen.size) % 2 == 0
    with blas_on(1):  # the same bits on any number of threads
        basis = directions(content, seen, half, features.shape[1], rng)
        items = content.dot(basis)
        described = np.count_nonzero(content.described)
        usual = float(np.sqrt(np.einsum("ik,ik->", items, items) / described))
        scale = usual and sharpness(items / usual, seen, np.flatnonzero(~half), rng)
    if not scale:
        return content
    profile = seen._replace(value=np.ones_like(seen.value)).dot(items)
    length = np.sqrt(np.einsum("uk,uk->u", profile, profile))[:, None]
    users += np.float32(scale**0.5) * profile / np.maximum(length, 1e-6)
    features += np.float32(scale**0.5 / usual) * basis
    return content


def directions(
    content: Design, seen: Rows, judged: np.ndarray, factors: int, rng: np.random.Generator
) -> np.ndarray:
    """Return orthogonal directions of the content in which users differ most.

    float32 [features, factors]. The leading right singular vectors of the users' mean contents,
    each times the root of the user's items, by the power method. Columns beyond the number of
    features are zero.
    """
    some = np.flatnonzero(judged & (np.diff(seen.start) > 0))
    some = some[:: max(int(seen.start[-1]) // 2 // SAMPLE, 1)]
    own, items = seen.take(some), content.rows.size
    weight = 1 / np.sqrt(np.maximum(np.diff(own.start), 1))
    own = own._replace(value=np.repeat(weight, np.diff(own.start)).astype(np.float32))
    people = Design(own, items, threads=content.threads)
    count = min(factors, int(np.count_nonzero(content.squares)), len(some))
    out = np.zeros((content.columns, factors), np.float32)
    if not count:
        return out
    turned = content.back(rng.standard_normal((items, count), np.float32))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(turned)[0]
        turned = content.back(people.twice(content.dot(basis)))
    out[:, :count] = np.linalg.qr(turned)[0]
    return out


def sharpness(items: np.ndarray, seen: Rows, some: np.ndarray, rng: np.random.Generator) -> float:
    """Return the scale of scores that predicts events best, by maximum likelihood; 0 if none does.

    An event is predicted by the sum of the user's other items, among items of OTHERS events. At
    most ln(items): a lead of that much is near certainty.
    """
    own = seen.take(some[np.diff(seen.start)[some] > 1])
    if not len(own.column):
        return 0.0
    event = rng.choice(len(own.column), min(JUDGED, len(own.column)), replace=False)
    total = own._replace(value=np.ones_like(own.value)).dot(items)[own.owner[event]]
    chosen = items[own.column[event]]
    query = total - chosen
    length = np.sqrt(np.einsum("ek,ek->e", query, query))[:, None]
    query /= np.maximum(length, 1e-6)
    others = items[rng.choice(seen.column, OTHERS)]
    scores = np.column_stack([np.einsum("ek,ek->e", query, chosen), query @ others.T])
    low, high = 0.0, float(np.log(len(items)))
    for _ in range(STEPS):  # the likelihood is concave in the scale
        middle = (low + high) / 2
        raised = np.exp(middle * (scores - scores.max(axis=1, keepdims=True)))
        expected = (raised * scores).sum(axis=1) / raised.sum(axis=1)
        low, high = (middle, high) if (scores[:, 0] - expected).mean() > 0 else (low, middle)
    return low
