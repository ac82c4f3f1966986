"""Generate the page of the experiment file: every key, from the signatures behind its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markdown import code, plain, table

from fmpair.config import option_schema
from fmpair.config.option_schema import REQUIRED, SECTIONS, TEXTS, Option, Options
from fmpair.data import synthetic
from fmpair.evaluation.protocol import PRESETS, Protocol
from fmpair.evaluation.views import VIEWS
from fmpair.metrics import NAMES


def page() -> str:
    """Return Markdown with a section for every key of the file."""
    return "\n\n".join(
        part for key, text in TEXTS.items() for part in (f"## {key}", plain(text), *_below(key))
    )


def _below(key: str) -> list[str]:
    if key in SECTIONS:
        return [_table(option_schema.options_of(SECTIONS[key]).known)]
    makers: dict[str, Callable[[], list[str]]] = {
        "data": _data,
        "filter": lambda: _steps(option_schema.filters()),
        "split": lambda: _steps(option_schema.splits()),
        "models": _models,
        "protocols": _protocols,
        "metrics": lambda: [f"Known: {_names(NAMES)}. See [metrics](metrics.md)."],
        "views": lambda: [f"Known: {_names(VIEWS)}."],
    }
    return makers[key]() if key in makers else []


def _data() -> list[str]:
    return [
        "One of these is the source of the events:",
        _table(option_schema.sources()),
        "### data.generate",
        _table(option_schema.options_of(synthetic.make).known),
        "### Column roles and reader options",
        _table(option_schema.reader_options(None).known),
    ]


def _steps(known: Mapping[str, Options]) -> list[str]:
    parts = []
    for name, options in known.items():
        parts += [f"### {name}", plain(options.text)]
        parts += [_table(options.known)] if options.known else []
    return parts


def _models() -> list[str]:
    return [
        "A name, or a mapping of `kind`, options of the [model](model_list.md), and:",
        _table(option_schema.model_keys().known),
        "An option may be `{grid: [...]}`, which makes a model of each value, or `{search: ...}`, "
        "which is tuned on the validation set.",
    ]


def _protocols() -> list[str]:
    known = option_schema.options_of(Protocol).known
    return [f"By name: {_names(PRESETS)}. See [protocols](protocols.md).", _table(known)]


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(known: Mapping[str, Option]) -> str:
    """Return a Markdown table with a row for each option."""
    rows = [[code(name), _default(one), plain(one.text)] for name, one in known.items()]
    return table(["key", "default", ""], rows)


def _default(option: Option) -> str:
    if option.default is REQUIRED:
        return "required"
    return "" if option.default in (None, (), {}, "") else code(option.default)
