"""The lists of all users as Parquet parts in a folder: here or on a cluster, and resumable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.checks import whole
from fmpair.cluster.connection import connect, versions
from fmpair.cluster.failure import telling
from fmpair.cluster.tasks import each
from fmpair.errors import DataError, MachineError, named
from fmpair.files import make_folder, remove_leftovers, shown, write_atomically
from fmpair.fitted.listing import USERS_AT_ONCE
from fmpair.fitted.query import query_frame
from fmpair.fitted.recipe import Recipe

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
    with telling():
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
