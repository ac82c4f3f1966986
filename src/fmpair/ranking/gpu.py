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
    n = min(n, items.shape[1])
    best = np.full((len(queries), n), -1, np.int32)
    score = np.full((len(queries), n), -np.inf, np.float32)
    filled = np.zeros(len(queries), np.int64)
    for part, scores in _batches(queries, items, device):
        _hide(scores, hidden, np.arange(part.start, part.stop))
        best[part], score[part] = _best(scores, n)
        filled[part] = (score[part] > -np.inf).sum(axis=1)
    return best, score, filled


def ranks(
    queries: np.ndarray, items: np.ndarray, hidden: Rows, target: np.ndarray, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """See `ranking.top.ranks`."""
    above, level = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    for part, scores in _batches(queries, items, device):
        column = torch.from_numpy(target[part].astype(np.int64)).to(device)[:, None]
        own = scores.gather(1, column)
        _hide(scores, hidden, np.arange(part.start, part.stop))
        scores.scatter_(1, column, -torch.inf)
        above[part] = (scores > own).sum(1).cpu().numpy()
        level[part] = (scores == own).sum(1).cpu().numpy()
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
    own = scores[rows, columns].masked_fill(~there, -torch.inf)
    _hide(scores, task.hidden, task.owner[part])
    scores[rows[there], columns[there]] = own[there]
    out.score[begin:end] = own.cpu().numpy()
    out.listed[part] = (scores > -torch.inf).sum(1).cpu().numpy()
    if out.best.shape[1]:
        out.best[part] = _best(scores, out.best.shape[1])[0]
    above, level = _places(scores, rows, own)
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
    matrix = torch.from_numpy(np.ascontiguousarray(items, np.float32)).to(device)
    size = max(SCORES_AT_ONCE // max(items.shape[1], 1), 1)
    for first in range(0, len(queries), size):
        part = slice(first, min(first + size, len(queries)))
        own = torch.from_numpy(np.ascontiguousarray(queries[part], np.float32)).to(device)
        yield part, torch.addmm(matrix[-1], own, matrix[:-1])


def _hide(scores: torch.Tensor, hidden: Rows, owner: np.ndarray) -> None:
    """Set the scores of hidden items to -inf; owner: each row's row of hidden."""
    rows = hidden.take(owner)
    indices = (a.astype(np.int64) for a in (rows.owner, rows.column))
    scores[tuple(torch.from_numpy(a).to(scores.device) for a in indices)] = -torch.inf


def _best(scores: torch.Tensor, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (items int32 [rows, n], padded with -1; their scores); ties go to the lower number.

    One integer holds score and item: the bits of floats of one sign are in their order.
    """
    bits = (scores + 0.0).view(torch.int32)
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    last = scores.shape[1] - 1
    key = (bits << 32) | (last - torch.arange(last + 1, device=scores.device))
    item = last - (key.topk(n).values & 0xFFFFFFFF)
    value = scores.gather(1, item)
    item = item.masked_fill(value == -torch.inf, -1)
    return item.to(torch.int32).cpu().numpy(), value.cpu().numpy()
