"""The addresses of the service: what each takes, gives, and does, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fmpair.serve import requests as wire
from fmpair.serve.service import Service


@dataclass(frozen=True)
class Parameter:
    """A part of the query string. kind: int or str."""

    name: str
    kind: type
    default: Any
    description: str
    least: int = 0
    most: int = 2**53


@dataclass(frozen=True)
class Endpoint:
    """takes: the type of the body, None for what is only read; gives: that of the answer."""

    method: str
    path: str
    summary: str
    gives: type
    answer: Callable[..., Awaitable[Any]]
    takes: type | None = None
    parameters: tuple[Parameter, ...] = ()
    example: Any = field(default=None, compare=False)


PREFIX = Parameter("prefix", str, "", "What the ids begin with, in upper or lower case.", most=1024)
FEW = Parameter("n", int, 20, "How many at most.", 1, 1_000)

ENDPOINTS = (
    Endpoint(
        "POST", "/v1/recommend", "The best items for a user or a visitor",
        wire.Recommended, Service.recommend, wire.Recommend,
        example={"user": "ann", "n": 5, "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/recommend/batch", "Several such questions at once",
        wire.RecommendedBatch, Service.batch, wire.Batch,
        example={"questions": [{"user": "ann", "n": 5}, {"history": ["maps", "mail"]}]},
    ),
    Endpoint(
        "POST", "/v1/score", "The scores of given items",
        wire.Scores, Service.score, wire.Score,
        example={"user": "ann", "items": ["maps", "mail"]},
    ),
    Endpoint(
        "POST", "/v1/similar", "The most similar items or users",
        wire.Neighbours, Service.similar, wire.Similar,
        example={"item": "maps", "n": 5},
    ),
    Endpoint(
        "POST", "/v1/explain", "What a score is made of",
        wire.Explained, Service.explain, wire.Explain,
        example={"user": "ann", "item": "maps", "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/events", "Keep what users did: the next answers know of it",
        wire.Taken, Service.take, wire.NewEvents,
        example={"events": [{"user": "ann", "item": "maps", "context": {"daytime": "evening"}}]},
    ),
    Endpoint(
        "GET", "/v1/events", "The events kept after a position, or the latest; oldest first",
        wire.KeptEvents, Service.events,
        parameters=(
            Parameter("after", int, None, "The position to go on from; the latest if left out."),
            FEW,
        ),
    ),
    Endpoint("GET", "/v1/model", "The models in service", wire.Cards, Service.cards),
    Endpoint(
        "GET", "/v1/items", "Ids of items", wire.Found, Service.items, parameters=(PREFIX, FEW)
    ),
    Endpoint(
        "GET", "/v1/users", "Ids of users", wire.Found, Service.users, parameters=(PREFIX, FEW)
    ),
)  # fmt: skip
