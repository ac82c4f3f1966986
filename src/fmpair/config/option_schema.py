"""The options of an experiment file, from the signatures of what reads it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fmpair.config.experiment import Candidate, Comparison, Output, Running, Source, Step, Tuning
from fmpair.data import Dataset, synthetic
from fmpair.data import filters as filter
from fmpair.data.read import FORMATS
from fmpair.data.splits import SPLITS
from fmpair.errors import FmpairError, UnknownError, unknown
from fmpair.evaluation.protocol import PRESETS, Protocol
from fmpair.models import catalog
from fmpair.text import descriptions, summary, whole

# Type hints put to use: whether a value fits one, in words what fits, and its JSON Schema.


WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
    Path: "the name of a file",
}
SCHEMAS: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    Path: "string",
}
MANY = {"a whole number": "whole numbers", "a number": "numbers", "text": "text"}


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value may stand where the hint is; what the hint leaves open fits."""
    if is_union(hint):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if is_list(hint):
        return isinstance(value, list) and all(fits(one, member(hint)) for one in value)
    if is_mapping(hint):
        return isinstance(value, dict) and all(fits(v, member(hint)) for v in value.values())
    if hint not in WORDS:
        return True
    if isinstance(value, bool):  # which is an int to Python, and to nobody else
        return hint is bool
    kinds = {float: int | float, Path: str}.get(hint, hint)
    return isinstance(value, kinds)


def words(hint: Any) -> str:
    """What fits, as in: must be `a whole number or null`."""
    if is_union(hint):
        return " or ".join(dict.fromkeys(words(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if is_list(hint):
        return _of("a list", hint)
    if is_mapping(hint):
        return _of("a mapping", hint)
    return WORDS.get(hint, "anything")


def schema_of(hint: Any) -> dict[str, Any]:
    """The hint as JSON Schema; {} where anything may stand."""
    if is_union(hint):
        parts = [schema_of(part) for part in get_args(hint)]
        return {} if {} in parts else {"anyOf": parts}
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if is_list(hint):
        return {"type": "array", "items": schema_of(member(hint))}
    if is_mapping(hint):
        return {"type": "object", "additionalProperties": schema_of(member(hint))}
    return {"type": SCHEMAS[hint]} if hint in SCHEMAS else {}


def parts_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the hint alone."""
    return get_args(hint) if is_union(hint) else (hint,)


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def is_list(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Sequence, list, tuple)


def is_mapping(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Mapping, dict)


def member(hint: Any) -> Any:
    """The type of what a list or mapping holds."""
    inner = get_args(hint)
    if not inner:
        return Any
    return inner[1] if is_mapping(hint) else inner[0]


def _of(what: str, hint: Any) -> str:
    inner = words(member(hint))
    return what if inner == "anything" else f"{what} of {MANY.get(inner, inner)}"


REQUIRED = inspect.Parameter.empty
FILTERS: dict[str, Callable[..., Dataset]] = {
    name: function
    for name, function in vars(filter).items()
    if getattr(function, "__module__", "") == filter.__name__ and not name.startswith("_")
}
SECTIONS: dict[str, type] = {
    "tune": Tuning,
    "compare": Comparison,
    "run": Running,
    "output": Output,
}
TEXTS = {
    "name": "The name of the experiment; by default the name of the file.",
    "extends": "An experiment file that this one inherits from: mappings merge, lists replace.",
    "data": "The events.",
    "filter": "Filters of the events, in this order; statistics are of the training part.",
    "split": "How events are split into training, validation and test set.",
    "models": "The models to compare.",
    "protocols": "How models are evaluated: by label the options of a protocol, or a preset.",
    "metrics": "The metrics, such as ndcg@10.",
    "views": "Groups that results are broken down by.",
    "seeds": "Every model is fitted once with each.",
    "tune": "Hyper-parameter search of options given as {search: ...}, on the validation set.",
    "compare": "How models are compared in the report.",
    "run": "Processes, threads and device; of these, results depend on the device alone.",
    "output": "What is kept, and where.",
}


@dataclass(frozen=True)
class Option:
    """One option: its type hint, its default (REQUIRED: none), and what it is for."""

    name: str
    hint: Any
    default: Any = REQUIRED
    text: str = ""


@dataclass(frozen=True)
class Options:
    """The options of one thing by name; open: it takes others too."""

    known: Mapping[str, Option]
    text: str = ""
    open: bool = False

    @property
    def required(self) -> list[str]:
        return [name for name, option in self.known.items() if option.default is REQUIRED]

    def without(self, names: Iterable[str]) -> Options:
        gone = set(names)
        known = {name: option for name, option in self.known.items() if name not in gone}
        return Options(known, self.text, self.open)


def options_of(thing: Callable[..., Any], skip: Iterable[str] = ()) -> Options:
    """The parameters of a function, or of what makes an instance of a class."""
    return _every_option(thing).without(skip)


@lru_cache(maxsize=512)  # signatures and hints take milliseconds, and an experiment asks often
def _every_option(thing: Callable[..., Any]) -> Options:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # compiled code may not tell
        return Options({}, open=True)
    hints = _hints(thing)
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    texts = descriptions(whole(thing), [p.name for p in named])
    known = {
        p.name: Option(p.name, hints.get(p.name, Any), p.default, texts.get(p.name, ""))
        for p in named
    }
    open = any(p.kind == p.VAR_KEYWORD for p in parameters)
    return Options(known, summary(thing.__doc__), open)


def filters() -> dict[str, Options]:
    """The options of every function of `fmpair.data.filters`."""
    own = ["data", "training"]  # which the experiment has, not its file
    return {name: options_of(function, own) for name, function in FILTERS.items()}


def splits() -> dict[str, Options]:
    """The options of every way to split; how large given parts are the data themselves say."""
    return {name: options_of(function, ["data", "parts"]) for name, function in SPLITS.items()}


def function_of(what: str, step: Step) -> Callable[..., Any]:
    """The function a step names, with hyphens or underscores; what: filter or split."""
    known: Mapping[str, Callable[..., Any]] = FILTERS if what == "filter" else SPLITS
    name = step.kind.replace("-", "_")
    if name not in known:
        raise UnknownError(unknown(what, step.kind, known))
    return known[name]


def fold_count(step: Step) -> int:
    """How many splits a way to split gives: `count` of them, or one."""
    function = SPLITS[step.kind]
    if get_origin(get_type_hints(function).get("return")) is not list:
        return 1
    return step.options.get("count", splits()[step.kind].known["count"].default)


def sources() -> dict[str, Option]:
    """The keys of `data` that say where events come from."""
    return dict(options_of(Source).without(["options"]).known)


def reading(format: str | None) -> Options:
    """The options of a format's reader, or of all readers, and of `Dataset.from_frame`."""
    readers = list(FORMATS.values()) if format is None else [FORMATS[format]]
    known: dict[str, Option] = {}
    for reader in readers:
        known |= options_of(reader, ["path"]).known
    # The first parameter is the frame itself.
    roles = list(options_of(Dataset.from_frame).known.items())[1:]
    texts = descriptions(Source.__doc__, ["options"])
    named = Option("format", str | None, None, "The format; by default inferred from the path.")
    return Options({"format": named, **known, **dict(roles)}, texts.get("options", ""))


def generating() -> Options:
    """The options of generated data."""
    return options_of(synthetic.make)


def presets() -> Mapping[str, Protocol]:
    """Protocols that have a name."""
    return PRESETS


def judging() -> Options:
    """The options of a protocol."""
    return options_of(Protocol)


def about_models() -> Options:
    """What an entry of `models` says beside the recipe's own options."""
    known = dict(options_of(Candidate, ["options", "search"]).known)
    known["name"] = replace(known["name"], default=None)  # grids and kinds make one
    return Options(known)


def recipes() -> dict[str, Options]:
    """The options of every model whose recipe can be imported."""
    found = {}
    for kind in catalog.MODELS:
        try:
            found[kind] = options_of(catalog.find(kind))
        except FmpairError:  # its library is not here, so nothing is known of its options
            found[kind] = Options({}, open=True)
    return found


def _hints(thing: Any) -> dict[str, Any]:
    """Hints of parameters; those that name what cannot be imported here are left out."""
    # hints of fields mean what they mean where each field is declared
    makes = thing.__init__ if inspect.isclass(thing) and not is_dataclass(thing) else thing
    try:
        return get_type_hints(makes)
    except (NameError, TypeError, AttributeError):
        return {}
