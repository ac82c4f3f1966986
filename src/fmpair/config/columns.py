"""Whether the columns that an experiment names are in its data, by the header alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fmpair.config.document import refused
from fmpair.config.experiment import Candidate, Experiment, Source
from fmpair.config.header import Header, header_of
from fmpair.config.read import Reading, reading
from fmpair.config.syntax import KeyPath
from fmpair.data.border import parsing
from fmpair.data.roles import STANDARD
from fmpair.errors import FmpairError, unknown
from fmpair.evaluation.views import CONTEXT
from fmpair.features.domains import SOURCE
from fmpair.metrics import Metric
from fmpair.metrics.metric import ERRORS

LISTS = ("context", "ignore", "item_columns", "leaks")
# What cannot do without a column.
NEEDS = {
    "above_mean": "rating",
    "above": "rating",
    "at_least": "rating",
    "dislikes": "rating",
    "by_time": "timestamp",
    "leave_last_out": "timestamp",
    "faded": "timestamp",
    "target": "domain",
}

Mistake = tuple[KeyPath, str]


def validate(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a file whose columns are there too; ConfigError lists all mistakes.

    No code from outside fmpair is imported, so the options of models that are such stay unchecked.
    """
    found = reading(path, overrides, "unseen")
    with parsing(f"{path} as an experiment file", refused):
        for key, text in _mistakes(found.experiment):
            found.top.mistakes.add(_in_file(found, key), text)
        found.top.mistakes.check()
    return found.experiment


def check_columns(experiment: Experiment) -> list[str]:
    """What an experiment names and its data do not have, one line each."""
    return [f"{'.'.join(map(str, key))}: {text}" for key, text in _mistakes(experiment)]


def _in_file(found: Reading, key: KeyPath) -> KeyPath:
    """Models are known by label here, in the file by number."""
    if key[0] != "models":
        return key
    return (*found.entries[str(key[1])].path, *key[2:])


def _mistakes(experiment: Experiment) -> list[Mistake]:
    try:
        header = header_of(experiment.data, experiment.filters)
    except FmpairError as error:
        return [(("data",), " ".join(str(error).split()))]
    if header is None:
        return []
    found = _roles(experiment.data, header)
    if found:  # what columns events keep is unknown until these are right
        return found
    for model in experiment.models:
        found += _model(model, header)
    for number, view in enumerate(experiment.views):
        if view.startswith(CONTEXT):
            names = [view.removeprefix(CONTEXT)]
            found += _absent(("views", number), "column", names, header.events)
    for label, protocol in experiment.protocols.items():
        gain = [] if protocol.gain is None else [protocol.gain]
        found += _absent(("protocols", label, "gain"), "column", gain, header.events)
    return found + _needs(experiment, header)


def _roles(source: Source, header: Header) -> list[Mistake]:
    found: list[Mistake] = []
    for name in ("user", "item", *STANDARD):
        if source.options.get(name) is not None:
            found += _absent(("data", name), "column", [source.options[name]], header.file)
    for name in LISTS:
        found += _absent(("data", name), "column", source.options.get(name) or (), header.file)
    return found


def _model(model: Candidate, header: Header) -> list[Mistake]:
    at: KeyPath = ("models", model.name)
    sides = (
        ("context", "context column", model.context, header.context),
        ("user_fields", "user attribute", model.user_fields, header.users),
        ("item_fields", "item attribute", model.item_fields, header.items),
    )
    found = [
        mistake
        for key, what, wanted, known in sides
        for mistake in _absent((*at, key), what, wanted or (), known)
    ]
    columns = (*header.context, *header.users, *header.items)
    return found + _absent((*at, "fields"), "column", _fields(model, header), columns)


def _fields(model: Candidate, header: Header) -> list[str]:
    """The columns that options by column name, less sides (`item.city`) and sources of domains."""
    sides = {"context": header.context, "user": header.users, "item": header.items}
    right = {f"{side}.{name}" for side, names in sides.items() for name in names}
    if "timestamp" in header.events:  # whose parts are features where a field asks for them
        right |= {"timestamp", "context.timestamp"}
    made = "domain" in header.events  # columns that only cross-domain models will have
    return [
        name
        for name in model.options.get("fields") or ()
        if name not in right and not (made and name.removeprefix("user.").startswith(SOURCE))
    ]


def _needs(experiment: Experiment, header: Header) -> list[Mistake]:
    """Filters, splits and metrics that ask for ratings, times or domains."""
    found: list[Mistake] = []
    if experiment.split.kind == "by_attribute":
        sides = (("user", header.users), ("item", header.items))
        known = [*header.events, *header.users, *header.items]
        known += [f"{role}.{name}" for role, names in sides for name in names]
        found += _absent(("split", "column"), "column", [experiment.split.options["column"]], known)
    steps: list[tuple[KeyPath, str]] = [(("split",), experiment.split.kind)]
    steps += [(("filter", n), step.kind) for n, step in enumerate(experiment.filters)]
    asked = [(key, kind, NEEDS[kind]) for key, kind in steps if kind in NEEDS]
    asked += [
        (("metrics", n), name, "rating")
        for n, name in enumerate(experiment.metrics)
        if Metric.parse(name).name in ERRORS
    ]
    asked += [
        (("protocols", label), label, "timestamp")
        for label, protocol in experiment.protocols.items()
        if protocol.timed
    ]
    return found + [
        (key, f"{kind} needs a {role}: name its column with data.{role}")
        for key, kind, role in asked
        if role not in header.events
    ]


def _absent(key: KeyPath, what: str, wanted: Iterable[str], known: Sequence[str]) -> list[Mistake]:
    return [(key, unknown(what, name, known)) for name in wanted if name not in known]
