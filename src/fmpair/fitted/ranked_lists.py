"""The ranked lists of all users as Parquet files in a folder: resumable, here or on a cluster."""

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
from fmpair.cluster import connect, each, one_line_errors, versions
from fmpair.errors import DataError, MachineError, named
from fmpair.files import make_folder, remove_leftovers, shown, write_atomically
from fmpair.fitted.model import USERS_AT_ONCE, FittedModel
from fmpair.fitted.question import query_frame
from fmpair.fitted.recipe import Recipe

PLAN = "lists.json"  # describes the parts of the folder

Task = tuple[FittedModel, int, int, Mapping[str, Any]]  # model, n, size, options


def recommend_to_folder(
    model: FittedModel,
    folder: str | Path,
    n: int = 10,
    *,
    on: str | None = None,
    size: int = USERS_AT_ONCE,
    **options: Any,
) -> Iterator[int]:
    """Write the result of model.recommend(None, n, **options); yield the number of each part.

    A part is a Parquet file with the lists of `size` users. Existing parts are skipped, so the
    same call resumes. on: address of a Ray cluster that computes the lists.
    """
    whole("size", size, 1)
    path, count = make_folder(folder), -(-len(model.space.users) // size)
    _check_plan(path, _plan(model, n, size, options))
    remove_leftovers(path)
    left = [number for number in range(count) if not part_path(path, number).exists()]
    for number, content in _made((model, n, size, options), left, on):
        if content is None:
            raise MachineError(
                f"part {number} of {shown(path)} was lost repeatedly on the Ray cluster; "
                "run the same command again to resume"
            )
        write_atomically(part_path(path, number), content)
        yield number


def part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _made(task: Task, left: Iterable[int], on: str | None) -> Iterator[tuple[int, bytes | None]]:
    if on is None:
        yield from ((number, _part(task, number)) for number in left)
        return
    ray = connect(on)
    with one_line_errors():
        yield from each(ray, _part, (ray.put(task),), left)


def _part(task: Task, number: int) -> bytes:
    """Return the lists of one part's users as Parquet."""
    model, n, size, options = task
    users = query_frame(model.space, None, None)[number * size : (number + 1) * size]
    content = BytesIO()
    model.replaced(frame_kind="polars").recommend(users, n, **options).write_parquet(content)
    return content.getvalue()


def _plan(model: FittedModel, n: int, size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything the lists depend on."""
    made = {"made by": versions()[0], "model": _digest(model), "n": n, "size": size}
    given = {name: value for name, value in options.items() if value is not None}
    if hasattr(given.get("exclude_shown"), "columns"):  # lists shown meanwhile prevent no resume
        given["exclude_shown"] = "lists shown"
    return json.loads(json.dumps({**made, "options": given}, default=str))


def _digest(model: FittedModel) -> str:
    """Return the SHA-256 of the model's arrays, ids and options."""
    recipe = model.recipe
    options = recipe.options() if isinstance(recipe, Recipe) else type(recipe).__name__
    digest = sha256(json.dumps([options, model.damping], default=str).encode())
    for ids in (model.space.users.ids, model.space.items.ids):
        digest.update(pl.DataFrame({"id": ids}).write_ipc(None).getvalue())
    for name, array in sorted(model.arrays().items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _check_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Write the plan to the folder; raise DataError if the folder has another plan."""
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
