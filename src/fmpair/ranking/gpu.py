"""Top-k and ranks by PyTorch, where the model is on a GPU: what the kernels give, ties included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from fmpair.arrays import Rows
from fmpair.ranking.plain import Task
from fmpair.ranking.ranks import Ranks

SCORES_AT_ONCE = 1 << 26  # of one batch: a quarter of a gigabyte, and its order twice as much


def top(
    queries: np.ndarray, items: np.ndarray, hidden: Rows, n: int, device: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `ranking.top.top`."""
    n = min(n, items.shape[1])
    best = np.full((len(queries), n), -1, np.int32)
    score = np.full((len(queries), n), -np.inf, np.float32)
    filled = np.zeros(len(queries), np.int64)
    for part, scores in _batches(queries, items, device):
        _hide(scores, hidden, np.arange(part.start, part.stop))
        found, value = _best(scores, n)
        best[part], score[part] = found, value
        filled[part] = (value > -np.inf).sum(axis=1)
    return best, score, filled


def ranks(
    queries: np.ndarray, items: np.ndarray, hidden: Rows, target: np.ndarray, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """As `ranking.top.ranks`."""
    above, level = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    for part, scores in _batches(queries, items, device):
        place = torch.from_numpy(target[part].astype(np.int64)).to(device)[:, None]
        own = scores.gather(1, place)
        _hide(scores, hidden, np.arange(part.start, part.stop))
        scores.scatter_(1, place, -torch.inf)
        above[part] = (scores > own).sum(1).cpu().numpy()
        level[part] = (scores == own).sum(1).cpu().numpy()
    return above, level


def judge(
    queries: np.ndarray, items: np.ndarray, task: Task, allowed: np.ndarray, top: int, device: str
) -> Ranks:
    """As `ranking.ranks.judge` of whole lists; queries: the vectors that `task.query` numbers."""
    units, entries = len(task.query), len(task.relevant.column)
    zeros = (
        np.zeros(entries, np.int64),
        np.zeros(entries, np.int64),
        np.zeros(entries, np.float32),
    )
    best = np.full((units, top), -1, np.int32)
    out = Ranks(*zeros, np.zeros(units, np.int64), np.zeros(units, np.int64), best)
    barred = torch.from_numpy(~allowed).to(device)
    for part, given in _batches(queries[task.query], items, device):
        given.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        given.masked_fill_(barred, -torch.inf)
        _judge_batch(given, part, task, allowed, out)
    return out


def _judge_batch(
    given: torch.Tensor, part: slice, task: Task, allowed: np.ndarray, out: Ranks
) -> None:
    """Place the relevant items of some units in their lists. given: scores, barred ones at -inf."""
    begin, end = (int(task.relevant.start[edge]) for edge in (part.start, part.stop))
    item = task.relevant.column[begin:end].astype(np.int64)
    row = np.repeat(np.arange(part.stop - part.start), np.diff(task.relevant.start)[part])
    listed = (item >= 0) & allowed[item]
    rows, columns = (torch.from_numpy(a).to(given.device) for a in (row, np.maximum(item, 0)))
    there = torch.from_numpy(listed).to(given.device)
    own = given[rows, columns].masked_fill(~there, -torch.inf)
    _hide(given, task.hidden, task.owner[part])
    given[rows[there], columns[there]] = own[there]
    out.score[begin:end] = own.cpu().numpy()
    out.listed[part] = (given > -torch.inf).sum(1).cpu().numpy()
    if out.best.shape[1]:
        out.best[part] = _best(given, out.best.shape[1])[0]
    above, level = _places(given, rows, own)
    counted = out.score[begin:end] > -np.inf
    out.above[begin:end] = np.where(counted, above, 0)
    out.level[begin:end] = np.where(counted, level, 0)


def _places(
    scores: torch.Tensor, row: torch.Tensor, value: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Of each value, how many scores of its row are greater, and how many equal."""
    ordered = scores.sort(1).values
    length = torch.bincount(row, minlength=len(scores))
    first = length.cumsum(0) - length
    place = torch.arange(len(row), device=row.device) - first[row]
    width = int(length.max()) if len(row) else 0
    table = scores.new_full((len(scores), max(width, 1)), -torch.inf)
    table[row, place] = value
    below, upto = (torch.searchsorted(ordered, table, right=right) for right in (False, True))
    above = (scores.shape[1] - upto)[row, place]
    return above.cpu().numpy(), (upto - below)[row, place].cpu().numpy()


def _batches(
    queries: np.ndarray, items: np.ndarray, device: str
) -> Iterator[tuple[slice, torch.Tensor]]:
    """(some queries, their scores [queries, items])."""
    matrix = torch.from_numpy(np.ascontiguousarray(items, np.float32)).to(device)
    size = max(SCORES_AT_ONCE // max(items.shape[1], 1), 1)
    for first in range(0, len(queries), size):
        part = slice(first, min(first + size, len(queries)))
        own = torch.from_numpy(np.ascontiguousarray(queries[part], np.float32)).to(device)
        yield part, torch.addmm(matrix[-1], own, matrix[:-1])


def _hide(scores: torch.Tensor, hidden: Rows, owner: np.ndarray) -> None:
    """Scores of the items that leave each row's list become -inf; owner: each row's of hidden."""
    rows = hidden.take(owner)
    place = (
        torch.from_numpy(a.astype(np.int64)).to(scores.device) for a in (rows.owner, rows.column)
    )
    scores[tuple(place)] = -torch.inf


def _best(scores: torch.Tensor, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(items int32 [rows, n], -1 beyond a list's end; their scores): ties go to the lower number.

    One whole number says score and item: floats of one sign are in the order of their bits.
    """
    bits = (scores + 0.0).view(torch.int32)
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    last = scores.shape[1] - 1
    key = (bits << 32) | (last - torch.arange(last + 1, device=scores.device))
    item = last - (key.topk(n).values & 0xFFFFFFFF)
    value = scores.gather(1, item)
    item = item.masked_fill(value == -torch.inf, -1)
    return item.to(torch.int32).cpu().numpy(), value.cpu().numpy()
