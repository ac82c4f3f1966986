"""Negatives: their sampler, losses of pairs (BPR, hinge, logistic, WARP), shared candidates."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn.functional import embedding, relu, softplus

from fmpair.arrays import Rows, distinct_pairs, tally
from fmpair.engine.contract import Problem, Settings
from fmpair.engine.torch.softmax import Sample

TRIES = 8  # attempts to draw an item that the user has not chosen
ORDERED_EVERY = 16  # minibatches between two sorts of the items, for the adaptive sampler


class Negatives:
    """Sampler of unchosen items. generator: on the device; every draw advances it."""

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
        self.shown = self._lists(problem.impressions)
        if settings.loss != "softmax":  # candidates shared by all users need no seen items
            own_items = distinct_pairs(problem.user, problem.item, problem.users)
            self.own_items = self._lists(own_items)
            self.seen = self._moved(own_items.owner * problem.items + own_items.column)
        self.steps, self.order, self.spread = 0, torch.empty(0), torch.empty(0)

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _lists(self, rows: Rows | None) -> tuple[torch.Tensor, torch.Tensor] | None:
        return None if rows is None else (self._moved(rows.start), self._moved(rows.column))

    def is_chosen(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return whether the user of each row has an event with the item: bool [events, n]."""
        key = user[:, None] * self.items + item
        entry = torch.searchsorted(self.seen, key).clamp(max=len(self.seen) - 1)
        return self.seen[entry] == key

    def shared(self, count: int) -> torch.Tensor:
        """Draw candidates shared by all events of a minibatch: int64 [count]."""
        return self._by_chance((count,))

    def drawn(
        self, user: torch.Tensor, item: torch.Tensor, count: int, q: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw negatives int64 [events, count]; also return whether each is valid (bool)."""
        shape = (len(user), count)
        negative = self._sampled(shape, item, q)
        for _ in range(TRIES):
            again = self._sampled(shape, item, q)
            negative = torch.where(self.is_chosen(user, negative), again, negative)
        valid = ~self.is_chosen(user, negative)
        draw = self._uniform(shape)
        shares = (self.settings.own_share, self.settings.impression_share)
        for share, lists in zip(shares, (self.own_items, self.shown)):
            if share and lists is not None:
                listed, there = self._listed(user, lists, shape)
                there &= (draw >= 0) & (draw < share) & (listed != item[:, None])
                negative, valid = torch.where(there, listed, negative), valid | there
            draw = draw - share
        return negative, valid

    def tried(self, user: torch.Tensor, item: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """Draw items that may be chosen ones: int64 [events, n_negatives]."""
        return self._sampled((len(user), self.settings.n_negatives), item, q)

    def order_items(self, vectors: torch.Tensor, constants: torch.Tensor) -> None:
        """For the adaptive sampler: sort the candidates by every factor, once in a while."""
        if self.settings.negative_sampler == "adaptive" and self.steps % ORDERED_EVERY == 0:
            table = torch.cat([vectors, constants[:, None]], 1)[self.candidates].T
            self.order = torch.argsort(table, dim=1, stable=True)
            self.spread = table.std(1, correction=0)
        self.steps += 1

    def _uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device, dtype=torch.float64)

    def _sampled(self, shape: tuple[int, int], item: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """Draw items, chosen or not, by the sampler of the settings."""
        sampler = self.settings.negative_sampler
        if sampler == "batch":
            return item[(self._uniform(shape) * len(item)).long().clamp(max=len(item) - 1)]
        return self._adaptive(shape, q) if sampler == "adaptive" else self._by_chance(shape)

    def _by_chance(self, shape: tuple[int, ...]) -> torch.Tensor:
        count = len(self.candidates)
        if self.settings.negative_sampler == "uniform":
            entry = (self._uniform(shape) * count).long()
        else:
            entry = torch.searchsorted(self.bound, self._uniform(shape), right=True)
        return self.candidates[entry.clamp(max=count - 1)]

    def _adaptive(self, shape: tuple[int, int], q: torch.Tensor) -> torch.Tensor:
        """Draw a factor that matters to the query, then an item that ranks high by it."""
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
        """Draw from each user's list: items [events, n], and whether the list has any."""
        start, column = lists
        first, length = start[user][:, None], (start[user + 1] - start[user])[:, None]
        entry = first + (self._uniform(shape) * length).long()
        there = (length > 0).expand(shape).clone()
        if not len(column):
            return torch.zeros(shape, dtype=torch.int64, device=self.device), there
        return column[entry.clamp(max=len(column) - 1)].long(), there


def loss_of(
    settings: Settings,
    q: torch.Tensor,
    sides: tuple[torch.Tensor, torch.Tensor],
    chosen: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    negatives: Negatives,
) -> tuple[torch.Tensor, torch.Tensor | int]:
    """Return the loss summed over a minibatch, and the number of events with a valid negative.

    q: [events, factors]; sides: vectors and constants of all items; chosen: user, item, weight.
    """
    user, item, weight = chosen
    vectors, constants = sides
    negatives.order_items(vectors.detach(), constants.detach())
    f = scores(q, sides, item[:, None])[:, 0]
    if settings.loss == "warp":
        losses, violated = _warp(q, sides, (user, item), f, negatives)
        return (weight * losses).sum(), violated.sum()
    other, valid = negatives.drawn(user, item, 1, q.detach())
    g = scores(q, sides, other)[:, 0]
    valid = valid[:, 0]
    if settings.loss == "logistic":
        return (weight * (softplus(-f) + valid * softplus(g))).sum(), valid.sum()
    losses = softplus(g - f) if settings.loss == "bpr" else relu(1 - (f - g))
    return (weight * valid * losses).sum(), valid.sum()


def scores(
    q: torch.Tensor, sides: tuple[torch.Tensor, torch.Tensor], item: torch.Tensor
) -> torch.Tensor:
    """Return the scores of n items per query: [events, n]. item: int64 [events, n]."""
    vectors, constants = sides
    product = (q[:, None, :] * embedding(item, vectors)).sum(2)
    return product + embedding(item, constants[:, None])[:, :, 0]


def _warp(
    q: torch.Tensor,
    sides: tuple[torch.Tensor, torch.Tensor],
    chosen: tuple[torch.Tensor, torch.Tensor],
    f: torch.Tensor,
    negatives: Negatives,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses against the first draw that ranks too high, and whether there is one.

    A loss weighs more the sooner that draw is found.
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


def sample_of(
    settings: Settings,
    sides: tuple[torch.Tensor, torch.Tensor],
    item: torch.Tensor,
    negatives: Negatives,
) -> Sample:
    """Return the chosen items and candidates shared by the minibatch, for a softmax.

    The logarithm of its expected count is subtracted from a candidate's score, so that the sum
    estimates the one over all items.
    """
    vectors, constants = sides
    negatives.order_items(vectors.detach(), constants.detach())
    negatives_drawn = negatives.shared(settings.n_negatives)
    off = negatives.log_chance[negatives_drawn] + math.log(len(negatives_drawn))
    both = torch.cat([item, negatives_drawn])
    rows = embedding(both, vectors).split([len(item), len(negatives_drawn)])
    beside = embedding(both, constants[:, None])[:, 0].split([len(item), len(negatives_drawn)])
    return Sample(item, rows[0], beside[0], negatives_drawn, rows[1], beside[1] - off)
