"""The lists of all users as Parquet parts in a folder: here or on a cluster, and resumable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, renumbered
from fmpair.checks import whole
from fmpair.cluster import connect, each, one_line_errors, versions
from fmpair.data.frame import given_back
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, MachineError, OptionError, UnknownError, named
from fmpair.files import make_folder, remove_leftovers, shown, write_atomically
from fmpair.fitted.id_lookup import ids_of, known_only
from fmpair.fitted.question import Fitted, Queries, known_rows, name_of, queries_of, query_frame
from fmpair.fitted.recipe import Recipe

# Nearest rows by angle.


def nearest(
    vectors: np.ndarray, number: int, n: int, norms: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, cosines) of the n rows nearest to a row, itself left out.

    norms: [rows], the lengths of the vectors, where they are known.
    """
    if not vectors.shape[1]:
        raise OptionError(
            "a model without vectors, such as Popularity, knows nothing of similarity"
        )
    return strongest(cosines(vectors, number, norms), number, n)


def cosines(vectors: np.ndarray, number: int, norms: np.ndarray | None = None) -> np.ndarray:
    """[rows]: of a row with every row, itself included."""
    norms = np.linalg.norm(vectors, axis=1) if norms is None else norms
    return vectors @ vectors[number] / np.maximum(norms * norms[number], 1e-12)


def strongest(similarity: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, similarities) of the n most similar, the one asked about left out.

    Of equals the lower number comes first. What is no number comes last.
    """
    whole("n", n, 1)
    distance = -similarity
    near = np.arange(len(distance))
    if n + 1 < len(distance):  # most need not be sorted
        near = np.flatnonzero(~(distance > np.partition(distance, n)[n]))
    order = near[np.argsort(distance[near], kind="stable")]
    order = order[order != number][:n]
    return order, similarity[order]


def as_frame(
    name: str, vocabulary: Vocabulary, found: tuple[np.ndarray, np.ndarray]
) -> pl.DataFrame:
    numbers, cosine = found
    return pl.DataFrame(
        {
            name: vocabulary.take(numbers),
            "similarity": cosine,
            "rank": np.arange(1, len(cosine) + 1),
        }
    )


# Ranked lists as frames.


USERS_AT_ONCE = 20_000  # whose lists are held in memory where all are written

Best = tuple[np.ndarray, np.ndarray, np.ndarray]


class Ranking(Fitted, Protocol):
    """A fitted model that can list. at_once: how many queries it answers in one piece."""

    @property
    def seen(self) -> Rows: ...
    @property
    def at_once(self) -> int: ...

    def best(self, queries: Queries, chosen: np.ndarray, hidden: Rows, n: int) -> Best:
        """(place among the chosen items [q, n], score [q, n], how many [q]), best first.

        hidden: per query the places left out.
        """
        ...


class Folded(Ranking, Protocol):
    """One whose scores are products: of vectors(queries) [q, k] and item_vectors [items, k], plus
    item_constants [items].
    """

    @property
    def item_vectors(self) -> np.ndarray: ...
    @property
    def item_constants(self) -> np.ndarray: ...

    def vectors(self, queries: Queries) -> np.ndarray: ...


@dataclass(frozen=True)
class Limits:
    """What may be listed: n items, without those seen, of the candidates, none of exclude.

    strict: candidates and items to exclude that are unknown are refused, else passed over.
    """

    n: int
    exclude_seen: bool = True
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        whole("n", self.n, 1)

    def chosen(self, items: Vocabulary) -> np.ndarray:
        """The item numbers that may be listed, ascending."""
        allowed = np.ones(len(items), bool)
        if self.candidates is not None:
            allowed[:] = False
            allowed[self._known("candidates", items)] = True
        if self.exclude is not None:
            allowed[self._known("exclude", items)] = False
        return np.flatnonzero(allowed)

    def _known(self, option: str, items: Vocabulary) -> np.ndarray:
        numbers = known_only(option, ids_of(getattr(self, option)), items, self.strict)
        return numbers[numbers >= 0]


def recommended(
    model: Ranking, frame: pl.DataFrame, limits: Limits, unknown: str, user_features: Any
) -> pl.DataFrame:
    """(the frame's columns, item, score, rank): up to n rows a query, best first."""
    return pl.concat(recommended_parts(model, frame, limits, unknown, user_features))


def recommended_parts(
    model: Ranking, frame: pl.DataFrame, limits: Limits, unknown: str, user_features: Any
) -> Iterator[pl.DataFrame]:
    """The same, as many queries at a time as the model answers at once."""
    chosen = limits.chosen(model.space.items)
    for first in range(0, max(len(frame), 1), model.at_once):
        part = frame[first : first + model.at_once]
        queries = queries_of(model, part, unknown=unknown, user_features=user_features)
        none = empty_rows(len(part))
        hidden = _hidden(model, queries, chosen) if limits.exclude_seen else none
        found = model.best(queries, chosen, hidden, limits.n)
        yield _frame(model, queries, chosen, *found)


def in_parts(
    model: Any, users: Any, n: int, size: int, options: Mapping[str, Any]
) -> Iterator[Any]:
    """What model.recommend gives, for `size` queries at a time."""
    whole("size", size, 1)
    frame = query_frame(model.space, users, None)
    for first in range(0, max(len(frame), 1), size):
        part = model.recommend(frame[first : first + size], n, **options)
        yield given_back(part, users, model.frame_kind)


def _hidden(model: Ranking, queries: Queries, chosen: np.ndarray) -> Rows:
    """Per query the user's seen items and those of the history, as places in `chosen`."""
    seen = known_rows(model.seen, queries.user)
    if queries.history is not None:
        seen = join_rows([seen, queries.history])
    if len(chosen) == len(model.space.items):
        return seen
    place = np.full(len(model.space.items), -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    return renumbered(seen, place)


def _frame(
    model: Ranking,
    queries: Queries,
    chosen: np.ndarray,
    best: np.ndarray,
    score: np.ndarray,
    filled: np.ndarray,
) -> pl.DataFrame:
    filled_places = np.arange(best.shape[1]) < filled[:, None]
    owner, place = np.nonzero(filled_places)
    items = chosen[best[filled_places]] if len(chosen) else np.zeros(0, np.int64)
    lists = pl.DataFrame(
        {
            name_of(model.space, "item"): model.space.items.take(items),
            "score": score[filled_places],
            "rank": (place + 1).astype(np.int64),
        }
    )
    asked = queries.shown
    if not set(lists.columns).isdisjoint(asked.columns):  # a context may have the name of ours
        asked = asked.drop(lists.columns, strict=False)
    return asked[owner].hstack(lists) if asked.width else lists


def recommended_users(
    model: Folded, queries: Queries, item: int, n: int, exclude_seen: bool
) -> pl.DataFrame:
    """(user, context..., score, rank): users by how far the item stands above their average item.

    A query's own terms cancel in every ranking of items and are not learned, so raw scores of
    different users cannot be compared; the distance from a user's mean score can.
    """
    whole("n", n, 1)
    if not len(queries.user):
        raise UnknownError("the model knows no users")
    apart = model.item_vectors[item] - model.item_vectors.mean(axis=0)
    score = model.vectors(queries) @ apart
    score = score + (model.item_constants[item] - model.item_constants.mean())
    allowed = np.ones(len(score), bool)
    if exclude_seen:
        owner = np.repeat(np.arange(model.seen.size), np.diff(model.seen.start))
        allowed[owner[model.seen.column == item]] = False
    order = np.flatnonzero(allowed)[np.argsort(-score[allowed], kind="stable")][:n]
    ranked = pl.DataFrame({"score": score[order], "rank": np.arange(1, len(order) + 1)})
    return queries.shown.drop(ranked.columns, strict=False)[order].hstack(ranked)


PLAN = "lists.json"  # what the parts of the folder are of


def recommend_to_folder(
    model: Any,
    folder: str | Path,
    n: int = 10,
    *,
    on: str | None = None,
    size: int = USERS_AT_ONCE,
    **options: Any,
) -> Iterator[int]:
    """Write what model.recommend(None, n, **options) gives; yields the number of each part written.

    A part holds the lists of `size` users, as a Parquet file of its own. What a folder has already
    is not made again, so that the same call resumes. on: a cluster whose machines make the lists.
    """
    whole("size", size, 1)
    place, count = make_folder(folder), -(-len(model.space.users) // size)
    _check_plan(place, _plan(model, n, size, options))
    remove_leftovers(place)
    left = [number for number in range(count) if not part_path(place, number).exists()]
    for number, content in _made((model, n, size, options), left, on):
        if content is None:
            raise MachineError(
                f"part {number} of {shown(place)} was lost again and again on the Ray cluster; "
                "the same command goes on with what is left"
            )
        write_atomically(part_path(place, number), content)
        yield number


def part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _made(
    asked: tuple[Any, int, int, Mapping[str, Any]], left: Iterable[int], on: str | None
) -> Iterator[tuple[int, bytes | None]]:
    if on is None:
        yield from ((number, _part(asked, number)) for number in left)
        return
    ray = connect(on)
    with one_line_errors():
        yield from each(ray, _part, (ray.put(asked),), left)


def _part(asked: tuple[Any, int, int, Mapping[str, Any]], number: int) -> bytes:
    """The lists of one part's users, as Parquet."""
    model, n, size, options = asked
    users = query_frame(model.space, None, None)[number * size : (number + 1) * size]
    content = BytesIO()
    model.replaced(frame_kind="polars").recommend(users, n, **options).write_parquet(content)
    return content.getvalue()


def _plan(model: Any, n: int, size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """All that the lists depend on."""
    told = {"made by": versions()[0], "model": _digest(model), "n": n, "size": size}
    given = {name: value for name, value in options.items() if value is not None}
    return json.loads(json.dumps({**told, "options": given}, default=str))


def _digest(model: Any) -> str:
    """SHA-256 of what the model has learned, of its ids and of its options."""
    recipe = model.recipe
    options = recipe.options() if isinstance(recipe, Recipe) else type(recipe).__name__
    found = sha256(json.dumps([options, model.damping], default=str).encode())
    for ids in (model.space.users.ids, model.space.items.ids):
        found.update(pl.DataFrame({"id": ids}).write_ipc(None).getvalue())
    for name, array in sorted(model.arrays().items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return found.hexdigest()


def _check_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Keep the plan in the folder, or refuse one that holds the parts of another."""
    path = folder / PLAN
    try:
        before = json.loads(path.read_bytes()) if path.exists() else None
    except ValueError:
        before = {}
    if before is not None and before != plan:
        raise DataError(
            f"{shown(folder)} holds the lists of another model, or of other options: choose a new "
            f"folder as {named('output')}"
        )
    if before is None and any(folder.iterdir()):
        raise DataError(
            f"{shown(folder)} holds other files: choose a new folder as {named('output')}"
        )
    write_atomically(path, (json.dumps(plan, indent=1) + "\n").encode())
