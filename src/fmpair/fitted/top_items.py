"""Ranked and similar items as arrays and frames; lists under rules, limits and diversity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, pieces, renumbered
from fmpair.checks import whole
from fmpair.errors import OptionError, named, notice
from fmpair.features import FeatureSpace
from fmpair.fitted.history import LiveState
from fmpair.fitted.id_lookup import IdLookup, ids_of
from fmpair.fitted.question import Queries, name_of, option_items
from fmpair.fitted.rules import BoundRules, LimitGroups
from fmpair.threads import side_by_side

# Places among the ranked items [queries, n], scores [queries, n], how many there are [queries].
Best = tuple[np.ndarray, np.ndarray, np.ndarray]


class ListsItems(Protocol):
    """A model with ids of items, of which some may be removed while it is in service."""

    id_lookup: IdLookup
    live: LiveState | None


def chosen_items(
    model: ListsItems, candidates: Any, exclude: Any, strict: bool
) -> np.ndarray | None:
    """Return the numbers of the items that may be listed, ascending; None for all items.

    strict: raise for unknown items of candidates and exclude, else ignore them.
    """
    items = model.id_lookup.items
    allowed = np.ones(len(items.vocabulary), bool)
    for option, ids, value in (("candidates", candidates, True), ("exclude", exclude, False)):
        if ids is not None:
            numbers = option_items(option, ids_of(ids), items, strict)
            if value:
                allowed[:] = False
            allowed[numbers[numbers >= 0]] = value
    if model.live is not None:
        allowed[model.live.removed] = False
    return None if allowed.all() else np.flatnonzero(allowed)


def hidden_places(parts: Sequence[Rows | None], chosen: np.ndarray | None, items: int) -> Rows:
    """Return per query the items of all parts, such as seen ones, as positions in `chosen`.

    items: the number of all items.
    """
    hidden = join_rows([part for part in parts if part is not None])
    if chosen is None:
        return hidden
    position = np.full(items, -1, np.int32)
    position[chosen] = np.arange(len(chosen))
    return renumbered(hidden, position)


def noted(best: Best, exclude_seen: bool, *others: Any) -> Best:
    """Issue a notice about lists that are empty because their users have seen all items.

    others: what else can keep items from the lists, each None if it is not used.
    """
    lengths = best[2]
    empty = int((lengths == 0).sum())
    if empty and exclude_seen and all(other is None for other in others):
        notice(
            f"{empty:,} of {len(lengths):,} lists are empty: their users have interacted with all "
            "items, so nothing is left to recommend"
        )
    return best


def list_frame(
    shown: pl.DataFrame, space: FeatureSpace, chosen: np.ndarray | None, best: Best
) -> pl.DataFrame:
    """Return ranked lists as a frame (the columns of `shown`, item, score, rank).

    shown: one row for each query.
    """
    positions, score, filled = best
    filled_in = np.arange(positions.shape[1]) < filled[:, None]
    owner, rank = np.nonzero(filled_in)
    numbers = positions[filled_in]
    if chosen is not None:
        numbers = chosen[numbers] if len(chosen) else np.zeros(0, np.int64)
    lists = pl.DataFrame(
        {
            name_of(space, "item"): space.items.take(numbers),
            "score": score[filled_in],
            "rank": (rank + 1).astype(np.int64),
        }
    )
    if not set(lists.columns).isdisjoint(shown.columns):  # a context may have one of our names
        shown = shown.drop(lists.columns, strict=False)
    return shown[owner].hstack(lists) if shown.width else lists


def cosines(vectors: np.ndarray, number: int, norms: np.ndarray | None = None) -> np.ndarray:
    """Return the cosines of a row with every row, itself included: [rows].

    norms: [rows], the lengths of the vectors, if known.
    """
    norms = np.linalg.norm(vectors, axis=1) if norms is None else norms
    return vectors @ vectors[number] / np.maximum(norms * norms[number], 1e-12)


def strongest(similarity: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and similarities of the n most similar rows, without the row itself.

    Ties go to the lower number; NaN comes last.
    """
    whole("n", n, 1)
    distance = -similarity
    near = np.arange(len(distance))
    if n + 1 < len(distance):  # avoids sorting most of them
        near = np.flatnonzero(~(distance > np.partition(distance, n)[n]))
    order = near[np.argsort(distance[near], kind="stable")]
    order = order[order != number][:n]
    return order, similarity[order]


def similar_frame(
    space: FeatureSpace, role: str, similarity: np.ndarray, number: int, n: int
) -> pl.DataFrame:
    """Return the n users or items (role) most similar to one as a frame (id, similarity, rank)."""
    numbers, values = strongest(similarity, number, n)
    vocabulary = space.users if role == "user" else space.items
    return pl.DataFrame(
        {
            name_of(space, role): vocabulary.take(numbers),
            "similarity": values,
            "rank": np.arange(1, len(values) + 1),
        }
    )


# Lists under rules: scores, what rules add to them, limits, and diversity by item vectors.

DEEP, MIN_DEEP = 10, 100  # how many times n, and how many at least, are ranked for a re-ranking
DEEPER = 8  # times as many where limits leave a list short

ScoreRows = Callable[[slice], np.ndarray]  # queries -> float32 [queries, items], may be written to


class Ruled(NamedTuple):
    """A question under rules. chosen: the candidates, None for all; hidden: items to leave out."""

    queries: Queries
    chosen: np.ndarray | None
    hidden: Rows
    rules: BoundRules


class ScoresItems(Protocol):
    """A model that scores all items and compares items."""

    def score_rows(self, queries: Queries) -> ScoreRows: ...

    def best_ruled(self, question: Ruled, n: int, threads: int | None) -> Best | None:
        """Return the best items without scoring all items; None if the model cannot."""
        ...

    def nearness(self, item: int, items: np.ndarray) -> np.ndarray:
        """Return the similarity of an item to others, at most 1: float32 [items]."""
        ...


def ruled(model: ScoresItems, question: Ruled, n: int, threads: int | None = None) -> Best:
    """Return the n best items of each query under rules, as item numbers."""
    rules, items = question.rules, question.rules.items
    n = min(n, items)
    reranked = bool(rules.groups or rules.rules.diversity)
    depth = min(max(DEEP * n, MIN_DEEP), items) if reranked else n
    ranked = model.best_ruled(question, depth, threads)
    if ranked is None:
        return _ruled_rows(model, question, n, depth if reranked else 0, threads)
    best, score, filled = ranked
    for query in range(len(filled)) if reranked else ():

        def deeper(depth: int, query: int = query) -> Best:
            more = model.best_ruled(question, depth, threads)
            assert more is not None
            best, score, filled = more
            return best[query], score[query], filled[query]

        _rerank(model, ranked, query, deeper, n, rules)
    return best[:, :n], score[:, :n], filled


def _ruled_rows(
    model: ScoresItems, question: Ruled, n: int, depth: int, threads: int | None
) -> Best:
    """Return lists by the scores of all items; depth: ranked for a re-ranking, 0 without one."""
    from fmpair.ranking.top import empty_lists, rows_at_once, select

    rules, hidden = question.rules, question.hidden
    count, offset = len(question.queries.user), _offset(rules, question.chosen)
    ranked = best, score, filled = empty_lists(count, depth or n)
    rows, scores_of = rows_at_once(count, rules.items), model.score_rows(question.queries)

    def run(first: int) -> None:
        scores = scores_of(slice(first, first + rows))
        if offset is not None:
            scores += offset
        select(scores, first, hidden.start, hidden.column, depth or n, best, score, filled)
        for row in range(len(scores)) if depth else ():

            def deeper(depth: int, row_scores: np.ndarray = scores[row : row + 1]) -> Best:
                bests, values, sizes = empty_lists(1, depth)
                none = np.zeros(2, np.int64), np.zeros(0, np.int32)  # they have no score by now
                select(row_scores, 0, *none, depth, bests, values, sizes)
                return bests[0], values[0], sizes[0]

            _rerank(model, ranked, first + row, deeper, n, rules)

    side_by_side(run, range(0, count, rows), threads)
    return best[:, :n], score[:, :n], filled


def _offset(rules: BoundRules, chosen: np.ndarray | None) -> np.ndarray | None:
    """Return what is added to scores; -inf for items shown before and for other than `chosen`."""
    offset, items = rules.offset, rules.items
    if chosen is None and not len(rules.shown):
        return offset
    if chosen is None:
        only = np.zeros(items, np.float32) if offset is None else offset.copy()
    else:
        only = np.full(items, -np.inf, np.float32)
        only[chosen] = 0.0 if offset is None else offset[chosen]
    only[rules.shown] = -np.inf
    return only


def _rerank(
    model: ScoresItems,
    ranked: Best,
    query: int,
    deeper: Callable[[int], Best],
    n: int,
    rules: BoundRules,
) -> None:
    """Replace the best items of one query by those that limits and diversity pick, in place.

    deeper: returns more ranked items; called if limits leave the list short.
    """
    best, score, filled = (part[query] for part in ranked)
    while True:
        picked = _picked(model, best[:filled], score[:filled], n, rules)
        size = len(picked)
        if size == n or filled < len(best) or len(best) == rules.items:
            break
        best, score, filled = deeper(min(DEEPER * len(best), rules.items))
    ranked[0][query, :size], ranked[1][query, :size] = best[picked], score[picked]
    ranked[2][query] = size


def _picked(
    model: ScoresItems, items: np.ndarray, score: np.ndarray, n: int, rules: BoundRules
) -> np.ndarray:
    """Pick items one by one within the limits; return their positions in `items`, best first.
    With diversity d, each pick maximises (1 - d) times the sum of the scores, scaled to 0 to 1,
    minus d times the sum of the similarities of all pairs over n - 1: about the mean score of the
    list minus the mean similarity of its items (max-sum diversification).
    """
    share = rules.rules.diversity or 0.0
    span = float(score[0] - score[-1]) if len(score) else 0.0
    value = (1 - share) * (score - score[-1:]) / (span or 1.0)
    near = np.zeros(len(items), np.float32)  # sum of the similarities to the picked items
    limits = [_Limit(group, items) for group in rules.groups]
    picked: list[int] = []
    left = np.ones(len(items), bool)
    while len(picked) < n and left.any():
        position = int(np.argmax(np.where(left, value - share * near, -np.inf)))
        left[position] = False
        picked.append(position)
        for limit in limits:
            left[limit.full_after(position)] = False
        if share and len(picked) < n:
            near += _nearness(model, int(items[position]), items) / max(n - 1, 1)
    return np.array(sorted(picked), np.int64)


def _nearness(model: ScoresItems, item: int, items: np.ndarray) -> np.ndarray:
    try:
        return model.nearness(item, items)
    except OptionError as error:
        raise OptionError(f"{named('diversity')}: {error}") from None


class _Limit:
    """How many items of each value of a column have been picked from a few items."""

    def __init__(self, group: LimitGroups, items: np.ndarray):
        first, size = group.start[items], group.start[items + 1] - group.start[items]
        self.owner = np.repeat(np.arange(len(items)), size)
        self.start, entries = pieces(first, size)
        self.code = group.code[entries]
        self.most, self.counts = group.most, dict[int, int]()

    def full_after(self, position: int) -> np.ndarray:
        """Count an item; return the positions of items that may no longer be picked."""
        full = []
        for code in set(self.code[self.start[position] : self.start[position + 1]].tolist()):
            self.counts[code] = self.counts.get(code, 0) + 1
            if self.counts[code] >= self.most:
                full.append(self.owner[self.code == code])
        return np.concatenate(full) if full else np.zeros(0, np.int64)
