"""Losses that look at drawn items: pairs, points, WARP, and a softmax over shared candidates."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import embedding, relu, softplus

from fmpair.engine.contract import Settings
from fmpair.engine.torch.negatives import Negatives


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
