"""Top-n lists and ranks by PyTorch on a GPU: the same results as the kernels, ties included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from fmpair.arrays import Rows
from fmpair.ranking.plain import RankingTask, Ranks, empty_ranks

SCORES_AT_ONCE = 1 << 26  # of a batch: 256 MB, and twice as much for sorting


def top(
    queries: np.ndarray, items: np.ndarray, hidden: Rows, n: int, device: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """See `ranking.top.top`."""
    n, batches = min(n, items.shape[1]), []
    for part, scores in _batches(queries, items, device):
        _hide_of(scores, hidden, part)
        batches.append(_best(scores, n))
    if not batches:
        return np.empty((0, n), np.int32), np.empty((0, n), np.float32), np.zeros(0, np.int64)
    best, score = (torch.cat(parts) for parts in zip(*batches))  # nothing waits until here
    filled = (score > -torch.inf).sum(1)
    return best.cpu().numpy(), score.cpu().numpy(), filled.cpu().numpy()


def ranks(
    queries: np.ndarray, items: np.ndarray, hidden: Rows, target: np.ndarray, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """See `ranking.top.ranks`."""
    above, level = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    for part, scores in _batches(queries, items, device):
        column = torch.from_numpy(target[part].astype(np.int64)).to(device)[:, None]
        target_score = scores.gather(1, column)
        _hide_of(scores, hidden, part)
        scores.scatter_(1, column, -torch.inf)
        above[part] = (scores > target_score).sum(1).cpu().numpy()
        level[part] = (scores == target_score).sum(1).cpu().numpy()
    return above, level


def judge(
    queries: np.ndarray,
    items: np.ndarray,
    task: RankingTask,
    allowed: np.ndarray,
    n: int,
    device: str,
) -> Ranks:
    """See `ranking.ranks.judge`, for whole lists; queries: the vectors numbered by `task.query`."""
    out = empty_ranks(task, n)
    barred = torch.from_numpy(~allowed).to(device)
    for part, scores in _batches(queries[task.query], items, device):
        scores.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        scores.masked_fill_(barred, -torch.inf)
        _judge_batch(scores, part, task, allowed, out)
    return out


def _judge_batch(
    scores: torch.Tensor, part: slice, task: RankingTask, allowed: np.ndarray, out: Ranks
) -> None:
    """Rank the relevant items of some units. scores: of excluded items -inf."""
    begin, end = (int(task.relevant.start[edge]) for edge in (part.start, part.stop))
    item = task.relevant.column[begin:end].astype(np.int64)
    row = np.repeat(np.arange(part.stop - part.start), np.diff(task.relevant.start)[part])
    listed = (item >= 0) & allowed[item]
    rows, columns = (torch.from_numpy(a).to(scores.device) for a in (row, np.maximum(item, 0)))
    there = torch.from_numpy(listed).to(scores.device)
    relevant_score = scores[rows, columns].masked_fill(~there, -torch.inf)
    _hide(scores, task.hidden, task.owner[part])
    scores[rows[there], columns[there]] = relevant_score[there]
    out.score[begin:end] = relevant_score.cpu().numpy()
    out.listed[part] = (scores > -torch.inf).sum(1).cpu().numpy()
    if out.best.shape[1]:
        out.best[part] = _best(scores, out.best.shape[1])[0].cpu().numpy()
    above, level = _places(scores, rows, relevant_score)
    counted = out.score[begin:end] > -np.inf
    out.above[begin:end] = np.where(counted, above, 0)
    out.level[begin:end] = np.where(counted, level, 0)


def _places(
    scores: torch.Tensor, row: torch.Tensor, value: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Count the scores of its row above each value, and those equal to it."""
    ordered = scores.sort(1).values
    length = torch.bincount(row, minlength=len(scores))
    first = length.cumsum(0) - length
    column = torch.arange(len(row), device=row.device) - first[row]
    width = int(length.max()) if len(row) else 0
    table = scores.new_full((len(scores), max(width, 1)), -torch.inf)
    table[row, column] = value
    below, upto = (torch.searchsorted(ordered, table, right=right) for right in (False, True))
    above = (scores.shape[1] - upto)[row, column]
    return above.cpu().numpy(), (upto - below)[row, column].cpu().numpy()


def _batches(
    queries: np.ndarray, items: np.ndarray, device: str
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield (a slice of the queries, their scores [queries, items])."""
    matrix, vectors = (
        torch.from_numpy(np.array(a, np.float32, order="C")).to(device) for a in (items, queries)
    )
    size = max(SCORES_AT_ONCE // max(items.shape[1], 1), 1)
    for first in range(0, len(queries), size):
        part = slice(first, min(first + size, len(queries)))
        yield part, torch.addmm(matrix[-1], vectors[part], matrix[:-1])


def _hide(scores: torch.Tensor, hidden: Rows, owner: np.ndarray) -> None:
    """Set the scores of hidden items to -inf; owner: each row's row of hidden."""
    rows = hidden.take(owner)
    _hide_entries(scores, np.diff(rows.start), rows.column)


def _hide_of(scores: torch.Tensor, hidden: Rows, part: slice) -> None:
    """Set the scores of hidden items to -inf; part: the rows of hidden, one for each of scores."""
    start = hidden.start[part.start : part.stop + 1]
    _hide_entries(scores, np.diff(start), hidden.column[start[0] : start[-1]])


def _hide_entries(scores: torch.Tensor, lengths: np.ndarray, column: np.ndarray) -> None:
    """Set the scores of columns to -inf; lengths: how many each row has."""
    count, items = (torch.from_numpy(np.array(a)).to(scores.device) for a in (lengths, column))
    scores[torch.repeat_interleave(count), items.long()] = -torch.inf


def _best(scores: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (items int32 [rows, n], padded with -1; their scores); ties go to the lower number.

    The n best are in the n groups of neighbours with the best maxima, of which a tie also goes to
    the lower number: each of these groups has an item before all of any other group. So only
    maxima and the items of n groups are sorted.
    """
    rows, items = scores.shape
    wide = max(int((items / n) ** 0.5), 1)
    if n * wide * 2 > items:
        item = _first(scores, n)
    else:
        whole = items // wide * wide  # the items after the last whole group are always sorted
        maxima = scores[:, :whole].view(rows, -1, wide).amax(2)
        group = _first(maxima, n).sort(1).values  # candidates in their order
        step = torch.arange(wide, device=scores.device)
        some = (group[:, :, None] * wide + step).view(rows, -1)
        rest = torch.arange(whole, items, device=scores.device).expand(rows, -1)
        some = torch.cat([some, rest], 1)
        item = some.gather(1, _first(scores.gather(1, some), n))
    value = scores.gather(1, item)
    return item.masked_fill(value == -torch.inf, -1).to(torch.int32), value


def _first(scores: torch.Tensor, n: int) -> torch.Tensor:
    """Return the places of the n best scores of each row, best first: int64 [rows, n].

    One integer holds score and place: the bits of floats of one sign are in their order.
    """
    bits = (scores + 0.0).view(torch.int32)
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    last = scores.shape[1] - 1
    key = (bits << 32) | (last - torch.arange(last + 1, device=scores.device))
    return last - (key.topk(n).values & 0xFFFFFFFF)
