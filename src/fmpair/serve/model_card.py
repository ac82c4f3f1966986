"""Model cards: what a service tells of the models that it serves."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fmpair.fitted import recipe
from fmpair.fitted.large_catalogue import ItemIndex
from fmpair.fitted.question import knows_time
from fmpair.fitted.recipe import name_of
from fmpair.serve.live_catalogue import title_column
from fmpair.serve.live_models import Rejection, ServedModel
from fmpair.serve.requests import MAX_VALUES, ContextColumn, IndexCard, ModelCard, Refused
from fmpair.serve.settings import Stamp, stamp


def model_card(
    served: ServedModel, rejected: Rejection | None = None, images: str | None = None
) -> ModelCard:
    """Return the card of a model in service; rejected: the last new file, if rejected.

    images: the column with addresses of images.
    """
    model: Any = served.model
    space = model.space
    parameters = getattr(model, "parameters", None)
    run = run_record(served.path, served.stamp)
    return ModelCard(
        model=served.id,
        arm=served.arm,
        recipe=name_of(type(model.recipe)),
        options=_plain(recipe.plain(model.recipe)),
        users=len(space.users),
        items=len(space.items),
        factors=None if parameters is None else int(parameters.users.shape[1]),
        context=[_query_column(space, "context", column) for column in space.context],
        user_features=[
            _query_column(space, "user", column) for column in model.encoder.user_features
        ],
        knows_time=knows_time(space),
        goes_by_history=space.history is not None,
        checksum=served.checksum,
        data={"events": int(model.seen.value.sum())} | run["data"],
        metrics=run["metrics"],
        saved=utc(served.stamp[0] / 1e9),
        loaded=utc(served.loaded),
        id_columns=list(space.id_columns),
        explains=parameters is not None,
        columns=[] if model.catalogue is None else model.catalogue.columns,
        refused=None if rejected is None else Refused(rejected.why, utc(rejected.when)),
        title=title_column(model),
        images=images,
        index=None if parameters is None else _index_card(model.item_side.index),
    )


def _index_card(index: ItemIndex | None) -> IndexCard | None:
    if index is None:
        return None
    return IndexCard(round(index.recall, 4), index.asked, index.cells, index.reach == 1)


@lru_cache(8)
def run_record(path: Path, loaded: Stamp) -> dict[str, Any]:
    """Return the data fingerprint of the run that wrote a model, and the metric that selected it.

    Empty if the file is not the model of a run, or is no longer the one that was loaded.
    """
    from fmpair.experiment.folder import WINNER, digest, read_json  # rarely needed

    record = read_json(path.parent / WINNER) or {}
    if "sha256" not in record or stamp(path) != loaded or digest(path) != record["sha256"]:
        return {"data": {}, "metrics": None}
    data = {"fingerprint": record["data"]}
    return {"data": data, "metrics": {record["metric"]: float(record["value"])}}


def utc(seconds: float) -> str:
    """Return seconds since 1970 as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _query_column(space: Any, role: str, name: str) -> ContextColumn:
    first = next(e for e in space.query.encoders if (e.role, e.source) == (role, name))
    if first.part or first.vocabulary is None:
        return ContextColumn(name, "time" if first.part else first.field.kind, [], 0)
    ids = first.vocabulary.ids
    return ContextColumn(name, first.field.kind, ids.head(MAX_VALUES).to_list(), len(ids))


def _plain(value: Any) -> Any:
    """Return a value with anything that JSON cannot represent as text."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
