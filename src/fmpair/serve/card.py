"""What is said of a model in service."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fmpair.fitted import option
from fmpair.fitted.moment import knows_time
from fmpair.fitted.recipe import name_of
from fmpair.serve.models import Refusal, Serving, Stamp, stamp
from fmpair.serve.requests import MOST_VALUES, ContextColumn, ModelCard, Refused


def card_of(own: Serving, refused: Refusal | None = None) -> ModelCard:
    """The card of a model in service; refused: the file that was to take its place, if any."""
    model: Any = own.model
    space = model.space
    parameters = getattr(model, "parameters", None)
    run = of_run(own.path, own.stamp)
    return ModelCard(
        model=own.id,
        arm=own.arm,
        recipe=name_of(type(model.recipe)),
        options=_plain(option.plain(model.recipe)),
        users=len(space.users),
        items=len(space.items),
        factors=None if parameters is None else int(parameters.users.shape[1]),
        context=[_column(space, column) for column in space.context],
        knows_time=knows_time(space),
        goes_by_history=space.history is not None,
        checksum=own.checksum,
        data={"events": int(model.seen.value.sum())} | run["data"],
        metrics=run["metrics"],
        saved=_time(own.stamp[0] / 1e9),
        loaded=_time(own.loaded),
        id_columns=list(space.id_columns),
        explains=parameters is not None,
        refused=None if refused is None else Refused(refused.why, _time(refused.when)),
    )


@lru_cache(8)
def of_run(path: Path, loaded: Stamp) -> dict[str, Any]:
    """What a run says of its model: the fingerprint of the data, and the metric it was chosen by.

    Nothing where the file is not the model of a run, or is no longer the one that was loaded.
    """
    from fmpair.experiment.folder import WINNER, digest, read_json  # which few services need

    record = read_json(path.parent / WINNER) or {}
    if "sha256" not in record or stamp(path) != loaded or digest(path) != record["sha256"]:
        return {"data": {}, "metrics": None}
    data = {"fingerprint": record["data"]}
    return {"data": data, "metrics": {record["metric"]: float(record["value"])}}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _column(space: Any, name: str) -> ContextColumn:
    """A column of the context with the values it is known by."""
    encoders = [e for e in space.query.encoders if e.role == "context" and e.source == name]
    first = encoders[0]
    if first.part:
        return ContextColumn(name, "time", [], 0)
    if first.vocabulary is None:
        return ContextColumn(name, first.field.kind, [], 0)
    ids = first.vocabulary.ids
    return ContextColumn(name, first.field.kind, ids.head(MOST_VALUES).to_list(), len(ids))


def _plain(value: Any) -> Any:
    """What JSON can say, anything else as text."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
