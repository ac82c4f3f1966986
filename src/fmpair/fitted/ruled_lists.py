"""Lists under rules: score rows, what rules add to them, limits, and diversity by item vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fmpair.arrays import Rows
from fmpair.fitted.question import Queries
from fmpair.fitted.rules import BoundRules, LimitGroups
from fmpair.fitted.top_items import Best
from fmpair.threads import side_by_side

DEEP, LEAST_DEEP = 5, 50  # how many times n, and how many at least, are ranked for a re-ranking
DEEPER = 8  # times as many where limits leave a list short

ScoreRows = Callable[[slice], np.ndarray]  # queries -> float32 [queries, items], may be written to


class ScoresItems(Protocol):
    """A model whose scores of all items can be had, and which compares items."""

    def score_rows(self, queries: Queries) -> ScoreRows: ...

    def nearness(self, item: int, items: np.ndarray) -> np.ndarray:
        """Return the similarity of an item to others, at most 1: float32 [items]."""
        ...


def ruled(
    model: ScoresItems,
    queries: Queries,
    chosen: np.ndarray | None,
    hidden: Rows,
    n: int,
    rules: BoundRules,
    threads: int | None = None,
) -> Best:
    """Return the n best items of each query under rules, as item numbers.

    chosen: the candidates, None for all; hidden: per query the items to leave out.
    """
    from fmpair.ranking.top import rows_at_once, select

    items = rules.items
    count, n, offset = len(queries.user), min(n, items), _offset(rules, chosen)
    reranked = bool(rules.groups or rules.rules.diversity)
    depth = min(max(DEEP * n, LEAST_DEEP), items) if reranked else n
    best, score, filled = _empty(count, depth)
    rows, scores_of = rows_at_once(count, items), model.score_rows(queries)

    def run(first: int) -> None:
        scores = scores_of(slice(first, first + rows))
        if offset is not None:
            scores += offset
        select(scores, first, hidden.start, hidden.column, depth, best, score, filled)
        for row in range(len(scores)) if reranked else ():
            query = first + row
            found = _reranked(
                model, scores[row : row + 1], best[query], score[query], filled[query], n, rules
            )
            filled[query] = len(found[0])
            best[query, : len(found[0])], score[query, : len(found[0])] = found

    side_by_side(run, range(0, count, rows), threads)
    return best[:, :n], score[:, :n], filled


def _offset(rules: BoundRules, chosen: np.ndarray | None) -> np.ndarray | None:
    """Return what is added to the scores; -inf for all but the candidates, and what was shown."""
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


def _empty(count: int, n: int) -> Best:
    best = np.full((count, n), -1, np.int32)
    return best, np.full((count, n), -np.inf, np.float32), np.zeros(count, np.int64)


def _reranked(
    model: ScoresItems,
    scores: np.ndarray,
    best: np.ndarray,
    score: np.ndarray,
    filled: int,
    n: int,
    rules: BoundRules,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the items of one list and their scores, from its best items.

    scores: float32 [1, items], from which more are taken where limits leave the list short.
    """
    from fmpair.ranking.top import select

    items = scores.shape[1]
    while True:
        found, value = best[:filled], score[:filled]
        picked = _picked(model, found, value, n, rules)
        if len(picked) == n or filled < len(best) or len(best) == items:
            return found[picked], value[picked]
        depth = min(DEEPER * len(best), items)
        bests, values, sizes = _empty(1, depth)
        none = np.zeros(2, np.int64), np.zeros(0, np.int32)
        select(scores, 0, *none, depth, bests, values, sizes)
        best, score, filled = bests[0], values[0], int(sizes[0])


def _picked(
    model: ScoresItems, items: np.ndarray, score: np.ndarray, n: int, rules: BoundRules
) -> np.ndarray:
    """Return places among the items, best first: one by one, the best that the limits allow.

    With diversity d, the value of an item is (1 - d) times its score, scaled from 0 to 1 within
    the items, less d times its similarity to the nearest item picked before (maximal marginal
    relevance, Carbonell and Goldstein 1998).
    """
    share = rules.rules.diversity
    span = float(score[0] - score[-1]) if len(score) else 0.0
    value = (1 - share) * (score - score[-1:]) / (span or 1.0)
    near = np.full(len(items), -1.0, np.float32)
    counts: list[dict[int, int]] = [{} for _ in rules.groups]
    picked: list[int] = []
    open_places = np.ones(len(items), bool)
    order = iter(range(len(items)))
    while len(picked) < n and open_places.any():
        if share:
            place = int(np.argmax(np.where(open_places, value - share * near, -np.inf)))
            if not open_places[place]:
                break
        else:
            place = next(order, -1)
            if place < 0:
                break
        open_places[place] = False
        if not _allowed(int(items[place]), rules.groups, counts):
            continue
        picked.append(place)
        if share and len(picked) < n:
            near = np.maximum(near, model.nearness(int(items[place]), items))
    return np.array(picked, np.int64)


def _allowed(item: int, groups: tuple[LimitGroups, ...], counts: list[dict[int, int]]) -> bool:
    """Return whether the limits allow an item, and count it if they do."""
    own = [group.code[group.start[item] : group.start[item + 1]].tolist() for group in groups]
    for group, codes, count in zip(groups, own, counts):
        if any(count.get(code, 0) >= group.most for code in codes):
            return False
    for codes, count in zip(own, counts):
        for code in codes:
            count[code] = count.get(code, 0) + 1
    return True
