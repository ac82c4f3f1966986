"""Losses that look at drawn items: pairs, points, WARP, and a softmax over shared candidates."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn.functional import embedding, relu, softplus

from fmpair.arrays import Rows, distinct_pairs, tally
from fmpair.engine.contract import Problem, Settings

# Items that were not chosen, drawn for the events of a minibatch.


TRIES = 8  # of finding an item that the user has not chosen
ORDERED_EVERY = 16  # minibatches between two orderings of the items, for adaptive draws


class Negatives:
    """Draws of unchosen items. generator: of the device, which every draw moves on."""

    def __init__(self, problem: Problem, settings: Settings, generator: torch.Generator):
        self.settings, self.items, self.device = settings, problem.items, generator.device
        self.generator = generator
        times = tally(problem.item, problem.items)
        candidates = np.flatnonzero(problem.drawn | (times > 0))
        self.candidates = self._moved(candidates)
        power = settings.drawn_power if settings.negative_sampler != "uniform" else 0.0
        chance = np.maximum(times[candidates], 1).astype(np.float64) ** power
        self.chance = self._moved(chance / chance.sum())
        self.bound = self.chance.cumsum(0)
        log_chance = np.full(problem.items, -np.inf)
        log_chance[candidates] = np.log(chance / chance.sum())
        self.log_chance = self._moved(log_chance.astype(np.float32))
        own = distinct_pairs(problem.user, problem.item, problem.users)
        self.own, self.shown = self._lists(own), self._lists(problem.impressions)
        self.seen = self._moved(own.owner * problem.items + own.column)
        self.steps, self.order, self.spread = 0, torch.empty(0), torch.empty(0)

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _lists(self, rows: Rows | None) -> tuple[torch.Tensor, torch.Tensor] | None:
        return None if rows is None else (self._moved(rows.start), self._moved(rows.column))

    def is_chosen(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """bool [events, n]: whether the user of each row has an event with the item."""
        key = user[:, None] * self.items + item
        place = torch.searchsorted(self.seen, key).clamp(max=len(self.seen) - 1)
        return self.seen[place] == key

    def shared(self, count: int) -> torch.Tensor:
        """int64 [count]: candidates that all events of a minibatch have in common."""
        return self._by_chance((count,))

    def drawn(
        self, user: torch.Tensor, item: torch.Tensor, count: int, q: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(items int64 [events, count], whether each is one bool): unchosen as far as there are."""
        shape = (len(user), count)
        found = self._picked(shape, item, q)
        for _ in range(TRIES):
            again = self._picked(shape, item, q)
            found = torch.where(self.is_chosen(user, found), again, found)
        good = ~self.is_chosen(user, found)
        draw = self._uniform(shape)
        shares = (self.settings.own_share, self.settings.impression_share)
        for share, lists in zip(shares, (self.own, self.shown)):
            if share and lists is not None:
                given, there = self._listed(user, lists, shape)
                there &= (draw >= 0) & (draw < share) & (given != item[:, None])
                found, good = torch.where(there, given, found), good | there
            draw = draw - share
        return found, good

    def tried(self, user: torch.Tensor, item: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """int64 [events, n_negatives]: draws that may be chosen items."""
        return self._picked((len(user), self.settings.n_negatives), item, q)

    def order_items(self, vectors: torch.Tensor, constants: torch.Tensor) -> None:
        """Adaptive: order the candidates anew by every factor, now and then."""
        if self.settings.negative_sampler == "adaptive" and self.steps % ORDERED_EVERY == 0:
            table = torch.cat([vectors, constants[:, None]], 1)[self.candidates].T
            self.order = torch.argsort(table, dim=1, stable=True)
            self.spread = table.std(1, correction=0)
        self.steps += 1

    def _uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device, dtype=torch.float64)

    def _picked(self, shape: tuple[int, int], item: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """One item a place, chosen or not, by the sampler of the settings."""
        sampler = self.settings.negative_sampler
        if sampler == "batch":
            return item[(self._uniform(shape) * len(item)).long().clamp(max=len(item) - 1)]
        return self._adaptive(shape, q) if sampler == "adaptive" else self._by_chance(shape)

    def _by_chance(self, shape: tuple[int, ...]) -> torch.Tensor:
        count = len(self.candidates)
        if self.settings.negative_sampler == "uniform":
            place = (self._uniform(shape) * count).long()
        else:
            place = torch.searchsorted(self.bound, self._uniform(shape), right=True)
        return self.candidates[place.clamp(max=count - 1)]

    def _adaptive(self, shape: tuple[int, int], q: torch.Tensor) -> torch.Tensor:
        """By rank: a factor that matters to the query, then an item that stands high by it."""
        ones, count = torch.ones_like(q[:, :1]), len(self.candidates)
        chances = (torch.cat([q, ones], 1).abs() * self.spread).double().cumsum(1)
        factor = torch.searchsorted(chances, self._uniform(shape) * chances[:, -1:], right=True)
        factor = factor.clamp(max=q.shape[1])
        mean = max(self.settings.rank_share * count, 1e-9)
        inside = -math.expm1(-count / mean)
        rank = (-mean * torch.log1p(-self._uniform(shape) * inside)).long().clamp(0, count - 1)
        liked = torch.cat([q, ones], 1).gather(1, factor) > 0
        return self.candidates[self.order[factor, torch.where(liked, count - 1 - rank, rank)]]

    def _listed(
        self, user: torch.Tensor, lists: tuple[torch.Tensor, torch.Tensor], shape: tuple[int, int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(items of each user's list [events, n], whether the user has any)."""
        start, column = lists
        first, length = start[user][:, None], (start[user + 1] - start[user])[:, None]
        place = first + (self._uniform(shape) * length).long()
        there = (length > 0).expand(shape).clone()
        if not len(column):
            return torch.zeros(shape, dtype=torch.int64, device=self.device), there
        return column[place.clamp(max=len(column) - 1)].long(), there


def loss_of(
    settings: Settings,
    q: torch.Tensor,
    sides: tuple[torch.Tensor, torch.Tensor],
    chosen: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    negatives: Negatives,
) -> tuple[torch.Tensor, torch.Tensor | int]:
    """(the sum over the events of a minibatch, how many of them had something to learn).

    q: [events, factors]; sides: vectors and constants of all items; chosen: user, item, weight.
    """
    user, item, weight = chosen
    vectors, constants = sides
    negatives.order_items(vectors.detach(), constants.detach())
    if settings.loss == "softmax":
        return (weight * _over_shared(settings, q, sides, item, negatives)).sum(), len(item)
    f = scores(q, sides, item[:, None])[:, 0]
    if settings.loss == "warp":
        own, found = _warp(settings, q, sides, (user, item), f, negatives)
        return (weight * own).sum(), found.sum()
    other, good = negatives.drawn(user, item, 1, q.detach())
    g = scores(q, sides, other)[:, 0]
    good = good[:, 0]
    if settings.loss == "logistic":
        return (weight * (softplus(-f) + good * softplus(g))).sum(), good.sum()
    own = softplus(g - f) if settings.loss == "bpr" else relu(1 - (f - g))
    return (weight * good * own).sum(), good.sum()


def scores(
    q: torch.Tensor, sides: tuple[torch.Tensor, torch.Tensor], item: torch.Tensor
) -> torch.Tensor:
    """[events, n]: of n items for each query; item: int64 [events, n]."""
    vectors, constants = sides
    product = (q[:, None, :] * embedding(item, vectors)).sum(2)
    return product + embedding(item, constants[:, None])[:, :, 0]


def _warp(
    settings: Settings,
    q: torch.Tensor,
    sides: tuple[torch.Tensor, torch.Tensor],
    chosen: tuple[torch.Tensor, torch.Tensor],
    f: torch.Tensor,
    negatives: Negatives,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(losses by the first of several draws that ranks too high, whether there is one).

    It is weighted by how soon it was found.
    """
    user, item = chosen
    with torch.no_grad():
        tried = negatives.tried(user, item, q)
        wrong = (1 - (f[:, None] - scores(q, sides, tried)) > 0) & ~negatives.is_chosen(user, tried)
        first = wrong.int().argmax(1, keepdim=True)
        others = len(negatives.candidates) - 1
        rank = torch.div(others, first[:, 0] + 1, rounding_mode="floor").float()
        strength = torch.log1p(rank) / math.log1p(others)
        strength = strength * wrong.any(1)
    other = scores(q, sides, tried.gather(1, first))[:, 0]
    return strength * relu(1 - (f - other)), wrong.any(1)


def _over_shared(
    settings: Settings,
    q: torch.Tensor,
    sides: tuple[torch.Tensor, torch.Tensor],
    item: torch.Tensor,
    negatives: Negatives,
) -> torch.Tensor:
    """Softmax of the chosen item among candidates that the minibatch shares.

    Scores of candidates are taken less the logarithm of how often they are drawn, so that their
    sum stands for that of all items; a candidate that is the chosen item counts once.
    """
    vectors, constants = sides
    drawn = negatives.shared(settings.n_negatives)
    off = negatives.log_chance[drawn] + math.log(len(drawn))
    f = scores(q, sides, item[:, None])
    with torch.autocast(q.device.type, torch.bfloat16, enabled=q.device.type == "cuda"):
        others = (q @ embedding(drawn, vectors).T).float()
    others = others + embedding(drawn, constants[:, None])[:, 0] - off
    others = others.masked_fill(drawn == item[:, None], -torch.inf)
    return torch.logsumexp(torch.cat([f, others], 1), 1) - f[:, 0]
