"""Small random problems for the tests of engines."""

import numpy as np

from fmpair.arrays import Rows, empty_rows, group_rows, join_rows, renumbered
from fmpair.data.times import strictly_before, timelines
from fmpair.engine import reference
from fmpair.engine.contract import (
    Groups,
    History,
    L2Scale,
    Meeting,
    Parameters,
    Problem,
    Settings,
    TripleL2,
    Triples,
)
from fmpair.engine.reference.draws import choices
from fmpair.engine.strata.partition import partition


def random_rows(rng, count, columns, most, spread=True):
    """`count` rows of up to `most` distinct columns with random values."""
    picks = [rng.permutation(columns)[: rng.integers(0, most + 1)] for _ in range(count)]
    owner = np.repeat(np.arange(count), [len(p) for p in picks])
    column = np.concatenate(picks).astype(np.int32) if len(owner) else np.zeros(0, np.int32)
    value = rng.uniform(0.2, 1.0, len(owner)) if spread else np.ones(len(owner))
    return group_rows(owner, column, count, value.astype(np.float32))


def problem_of(parts, users=12, items=15, events=90, seed=0, weights=False, known=False):
    """A small random problem.

    parts: any of c (context), u, a (attributes), v (a vector of items, which most of them have, in
    place of the second field of attributes), s (impressions).
    """
    rng = np.random.default_rng(seed)
    contexts = random_rows(rng, 6, 5, 3) if "c" in parts else empty_rows(1)
    situation = rng.integers(0, contexts.size, events).astype(np.int32)
    profiles = random_rows(rng, users, 4, 2) if "u" in parts else empty_rows(users)
    if "u" in parts:
        profiles = Rows(profiles.start, profiles.column + np.int32(5), profiles.value)
    attributes = random_rows(rng, items, 6, 4) if "a" in parts else empty_rows(items)
    attributes = with_vectors(attributes) if "v" in parts else attributes
    ones = np.ones(events, np.float32)
    return Problem(
        user=rng.integers(0, users, events).astype(np.int32),
        item=rng.integers(0, items, events).astype(np.int32),
        weight=rng.uniform(0.5, 2, events).astype(np.float32) if weights else ones,
        known=rng.random(events) < 0.2 if known else np.zeros(events, bool),
        drawn=rng.random(items) < 0.8,
        situation=situation,
        contexts=contexts,
        user_rows=profiles,
        item_rows=attributes,
        query_groups=Groups(
            field=np.array([0, 0, 1, 1, 1, 2, 2, 3, 3], np.int32),
            share=np.array([0.4, 0.6, 0.2, 0.3, 0.5, 0.5, 0.5, 0.9, 0.1], np.float32),
            owners=np.repeat([1, 3, 1, 2], [5, 2, 1, 1]).astype(np.float32),
            sharing=np.repeat([0.0, 0.3, 1.0], [5, 2, 2]).astype(np.float32),
            centred=np.array([1, 1, 1, 1, 1, 0, 0, 1, 1], bool),
        ),
        item_groups=Groups(
            field=np.array([0, 0, 0, 1, 1, 1], np.int32),
            share=np.full(6, 1 / 3, np.float32),
            owners=np.repeat([1, 4], 3).astype(np.float32),
            sharing=np.full(6, 0.5, np.float32),
            centred=np.zeros(6, bool),
        ),
        impressions=random_rows(rng, users, items, items // 2) if "s" in parts else None,
    )


def with_vectors(attributes, seed=9):
    """Rows whose features 3 to 5 are a vector of length one, which one row in five lacks."""
    vectors = np.random.default_rng(seed).standard_normal((attributes.size, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    has = np.arange(attributes.size) % 5 != 2
    start = np.append(0, np.cumsum(3 * has))
    column = np.tile(np.arange(3, 6, dtype=np.int32), has.sum())
    others = renumbered(attributes, np.array([0, 1, 2, -1, -1, -1], np.int32))
    return join_rows([others, Rows(start, column, vectors[has].reshape(-1))])


def with_histories(problem, last=3, since=False, shared=False, seed=7):
    """The problem with a history of each event: 4 more query features, up to 3 of an item.

    Times tie and items come again. since: events look no farther back than some place. shared: as
    many more features as there are items.
    """
    rng = np.random.default_rng(seed)
    moment = rng.integers(0, 20, len(problem.user))
    lines = timelines(problem.user, problem.item, problem.users, moment)
    until = strictly_before(lines)[lines.positions]
    first = lines.start[problem.user]
    low = rng.integers(first, until + 1).astype(np.int32) if since else np.zeros(0, np.int32)
    more_features = problem.items if shared else 4
    rows = random_rows(rng, problem.items, 4, 3)
    if shared:
        each = np.arange(problem.items + 1)
        rows = Rows(each, each[:-1].astype(np.int32), np.ones(problem.items, np.float32))
    rows = Rows(rows.start, rows.column + np.int32(9), rows.value)
    groups = problem.query_groups
    more = Groups(
        field=np.full(more_features, 4, np.int32),
        share=np.full(more_features, 1 / more_features, np.float32),
        owners=np.full(more_features, 2, np.float32),
        sharing=np.zeros(more_features, np.float32),
        centred=np.zeros(more_features, bool),
    )
    weight = np.arange(1, last + 1, dtype=np.float32) ** np.float32(-0.7)
    return problem._replace(
        query_groups=Groups(*(np.concatenate(pair) for pair in zip(groups, more))),
        history=History(lines.start, lines.item, until, low, weight, rows, shared),
    )


def with_triples(problem, factors=3, apart=False):
    """The problem with terms of order three; apart: not all groups of features meet."""
    query, items = len(problem.query_groups.field), len(problem.item_groups.field)
    group = (np.arange(query) % 3).astype(np.int8)
    meets = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.float32)
    own = np.array([[0, 1], [1, 0]], np.float32)
    of_items = Meeting(0, np.arange(items, dtype=np.int8) % 2, own)
    if not apart:
        group, meets = np.zeros(query, np.int8), np.ones((1, 1), np.float32)
        of_items = Meeting(0, np.zeros(items, np.int8), np.ones((1, 1), np.float32))
    if not len(problem.item_rows.column):
        of_items = of_items._replace(meets=of_items.meets * 0)
    return problem._replace(
        triples=Triples(factors, Meeting(1 if apart else 0, group, meets), of_items)
    )


def without_mirror(problem):
    """The same where no two features of an item meet, as with cosines."""
    item = problem.triples.item
    return problem._replace(
        triples=problem.triples._replace(item=item._replace(meets=item.meets * 0))
    )


def triple_l2_of(problem):
    query, items = len(problem.query_groups.field), len(problem.item_groups.field)
    rows = (np.full(n, 0.04, np.float32) for n in (query, items))
    thresholds = (np.where(np.arange(n) % 2, 0.02, 0).astype(np.float32) for n in (query, items))
    return TripleL2(0.03, 0.05, *rows, *thresholds)


def parameters_of(problem, factors=5, seed=1):
    rng = np.random.default_rng(seed)
    factors += problem.triples.factors if problem.triples else 0
    shapes = [(problem.users, factors), (problem.items, factors), (problem.items,),
              (len(problem.query_groups.field), factors), (6, factors), (6,)]  # fmt: skip
    return Parameters(*(rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes))


def settings_of(histories=0, **changes):
    """Settings of a problem; histories: how many features it has of what came before."""
    base = Settings(
        seed=3, positives="permutation", blocks=1, partition_every=2, threads=1,
        user=0.01, positive=0.02, negative=0.03, bias=0.04,
        query=np.full(9 + histories, 0.05, np.float32), features=np.full(6, 0.06, np.float32),
        query_threshold=np.repeat([0.0, 0.02, 0.0], [5, 4, histories]),
        feature_threshold=np.repeat([0.01, 0.0], 3),
    )  # fmt: skip
    return base._replace(**changes)


def l2_scale_of(problem, most=4.0):
    rng = np.random.default_rng(5)
    sizes = (problem.users, problem.items)
    return L2Scale(*(rng.uniform(0, most, size).astype(np.float32) for size in sizes))


def choices_of(training, number=1, blocks=1):
    """All steps of an epoch of the reference engine, with nothing learned in between."""
    for user_block in range(blocks):
        for item_block in range(blocks):
            yield from choices(training.cell(user_block, item_block), number, training.tables)


def partitioned(problem, settings, number=1):
    """Training of the reference engine with its partition made and nothing learned."""
    training = reference.begin(problem, parameters_of(problem), settings)
    training.partition = partition(training.events, settings.blocks, settings.seed, number)
    return training
