"""Read an experiment file into an Experiment, and a file of named rules.

    experiment.yaml -document.read-> Document -read_* per section-> Experiment

This module reads the sections protocols, metrics, views, tune, compare, run and output itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.checks import one_of, whole
from fmpair.config import document
from fmpair.config import option_schema as schema
from fmpair.config.ablation import expand_ablations
from fmpair.config.data_columns import missing_columns
from fmpair.config.data_section import read_filters, read_source, read_split
from fmpair.config.document import KeyPath, parse_yaml, refused
from fmpair.config.experiment import TESTS, Candidate, Experiment, Source, Step
from fmpair.config.model_section import (
    Code,
    Models,
    check_budgets,
    needs_validation,
    read_models,
    read_seeds,
)
from fmpair.config.node import MAX_MISTAKES, Mistakes, Node, one_line
from fmpair.config.option_schema import Option, Options
from fmpair.data.columns.roles import find_column
from fmpair.data.formats.source import parse_errors
from fmpair.data.read import read_frame
from fmpair.errors import ConfigError, FmpairError, OptionError, in_file, unknown
from fmpair.evaluation.protocol import PRESETS, Protocol
from fmpair.evaluation.views import CONTEXT, VIEWS
from fmpair.fitted.rules import Rules, rules_of
from fmpair.metrics import Metric

MAX_CELLS = 100_000  # models x folds x seeds
# The least and the largest values of numbers in the sections tune, compare, run and output.
MINIMA = {"trials": 1, "parallel": 1, "seed": 0, "workers": 1, "threads": 1, "curve": 0}
MAXIMA = {"trials": 100_000, "workers": 256}
RULE_KEYS = ("where", "limit", "boost", "diversity", "exclude_shown")


def read(path: str | Path, overrides: Sequence[str] = (), allow_code: bool = False) -> Experiment:
    """Read an experiment file; ConfigError lists all its mistakes.

    overrides: `key=value`, the key a dotted path such as models.0.factors.
    allow_code: import and run models that the file names as package.module:Class, also those in
    its folder. Such a file can do whatever you can: allow it only for files you trust.
    """
    code: Code = "allowed" if allow_code else "refused"
    return replace(_read(path, overrides, code), allow_code=allow_code)


def validate(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment file and check its columns too; ConfigError lists all its mistakes.

    No code from outside fmpair is imported, so the options of such models are not checked.
    """
    return _read(path, overrides, "unseen", columns=True)


def _read(
    path: str | Path, overrides: Sequence[str], code: Code, columns: bool = False
) -> Experiment:
    mistakes = Mistakes(document.read(path, overrides))
    try:
        return _read_document(mistakes, code, columns)
    except ConfigError:
        if not overrides or not 0 < len(mistakes.entries) < MAX_MISTAKES:
            raise
        alone = Mistakes(document.read(path))
        with suppress(FmpairError):
            _read_document(alone, code, columns)
        raise ConfigError(mistakes.lines(overrides, alone.entries)) from None


def _read_document(mistakes: Mistakes, code: Code, columns: bool) -> Experiment:
    text = mistakes.document
    top = Node(mistakes, {} if text.values is None else text.values)
    with parse_errors(f"{text.path} as an experiment file", refused):
        if not top.is_a(dict):
            mistakes.check()
        return _read_sections(top, code, columns)


def _read_sections(top: Node, code: Code, columns: bool) -> Experiment:
    """columns: whether to look up the named columns in the data."""
    for name in top.value:
        top.at(name).holding(name).is_in("section", schema.TEXTS)
    for name in ("data", "models"):
        if name not in top.value:
            top.wrong(f"section '{name}' is missing")
    source = read_source(top.at("data")) if "data" in top.value else None
    models = read_models(top.at("models"), code) if "models" in top.value else {}
    split = read_split(top.at("split"), source)
    sections = _other_sections(top)
    _check_validation(source, split, models)
    check_budgets(models.values(), sections["tune"].trials)
    _check_metrics(top, sections)
    # An empty source or split stands for a mistake, with which no experiment is returned.
    experiment = Experiment(
        data=source or Source(), models=_candidates(models), split=split or Step(""), **sections
    )
    if columns and source is not None:
        _check_columns(top, experiment, models)
    if any(entry.value.get("ablation") for _, entry in models.values()):
        top.mistakes.check()  # read the header of the data only if there are no other mistakes
        models, ablations = expand_ablations(
            models, top.at("data"), experiment.data, experiment.filters
        )
        top.mistakes.check()
        experiment = replace(experiment, models=_candidates(models), ablations=ablations)
    baseline = experiment.compare.baseline
    if baseline is not None and models:
        top.at("compare").at("baseline").is_in("model", models)
    top.mistakes.check()
    _check_cells(top, models, experiment.split, experiment.seeds)
    return experiment


def _candidates(models: Models) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate, _ in models.values())


def _check_columns(top: Node, experiment: Experiment, models: Models) -> None:
    """Record the named columns that the data lack; columns are unknown if `data` has a mistake."""
    if any(path[:1] == ("data",) for path, _ in top.mistakes.entries):
        return
    for key, text in missing_columns(experiment):
        top.mistakes.add(_place(top, models, key), text)


def _place(top: Node, models: Models, key: KeyPath) -> KeyPath:
    """Return the position in the file of what has a name: a model, or an entry of a list."""
    if key[0] == "models":
        return (*models[str(key[1])][1].path, *key[2:])
    if key[0] not in ("filter", "metrics", "views"):
        return key
    for number, entry in enumerate(top.value[key[0]]):
        name = entry.get("kind", next(iter(entry), "")) if isinstance(entry, dict) else entry
        if str(name).replace("-", "_") == str(key[1]).replace("-", "_"):
            return (key[0], number)
    return key[:1]


def _other_sections(top: Node) -> dict[str, Any]:
    """Read all sections except data, split and models; missing sections keep their defaults."""
    nodes = {name: top.at(name) for name, value in top.value.items() if value is not None}
    # The default protocol depends on the data, see `experiment.prepared.with_defaults`.
    sections: dict[str, Any] = {"name": _name(top), "protocols": {}}
    for name, reader in (
        ("protocols", read_protocols),
        ("metrics", read_metrics),
        ("views", read_views),
        ("seeds", read_seeds),
    ):
        if name in nodes:
            sections[name] = reader(nodes[name])
    if "filter" in nodes:
        sections["filters"] = read_filters(nodes["filter"])
    for name, kind in schema.SECTIONS.items():
        sections[name] = _section(nodes[name], kind) if name in nodes else kind()
    folder = sections["output"].folder or str(Path("runs") / sections["name"])
    sections["output"] = replace(sections["output"], folder=str(Path(folder).absolute()))
    return sections


def _name(top: Node) -> str:
    node = top.at("name")
    if node.value is None or not node.is_a(str):
        return top.mistakes.document.path.stem
    if not node.value or node.value in (".", "..") or {"/", "\\"} & set(node.value):
        node.wrong(f"must be a valid name of a folder, not {node.value!r}")
    return node.value


def _section(node: Node, kind: type) -> Any:
    """Read tune, compare, run or output."""
    values = node.options(schema.options_of(kind))
    for name, value in values.items():
        if name in MINIMA and value is not None:
            node.at(name).passes(whole, name, value, MINIMA[name])
            if name in MAXIMA and value > MAXIMA[name]:
                node.at(name).wrong(f"must be at most {MAXIMA[name]:,}, not {value:,}")
        elif name == "metric" and value is not None:
            node.at(name).passes(Metric.parse, value)
    if "test" in values:
        node.at("test").passes(one_of, "test", values["test"], TESTS)
    if not 0 < values.get("level", 0.5) < 1:
        node.at("level").wrong(f"must be between 0 and 1, not {values['level']}")
    return kind(**values)


def read_protocols(node: Node) -> dict[str, Protocol]:
    """Read `protocols` by label; protocols in a list are labelled by preset or id."""
    if isinstance(node.value, str):
        node = node.holding([node.value])
    protocols: dict[str, Protocol] = {}
    if isinstance(node.value, list):
        for entry in node.items():
            protocol = _protocol(entry)
            if protocol is None:
                continue
            label = entry.value if isinstance(entry.value, str) else protocol.id
            if label in protocols:
                entry.wrong(f"there is a protocol {label!r} already")
            protocols[label] = protocol
    elif node.is_a(dict):
        read = {label: _protocol(node.at(label)) for label in node.value}
        protocols = {label: protocol for label, protocol in read.items() if protocol is not None}
    if node.value in ([], {}):
        node.wrong("needs at least one protocol")
    return protocols


def _protocol(node: Node) -> Protocol | None:
    """Read a preset name, or options that modify the preset `kind`."""
    if isinstance(node.value, str):
        return PRESETS[node.value] if node.is_in("protocol", PRESETS) else None
    known = schema.options_of(Protocol)
    values = node.options(Options({**known.known, "kind": Option("kind", str, None)}))
    base = Protocol()
    if "kind" in values:
        if not node.at("kind").is_in("protocol", PRESETS):
            return None
        base = PRESETS[values.pop("kind")]
    if isinstance(values.get("items"), str):
        values["items"] = _items(node.at("items"))
    return node.attempt(lambda **options: replace(base, **options), known, values)


def _items(node: Node) -> Any:
    """Read the item column of a file, and the user column if present."""
    try:
        frame = read_frame(node.file() or "")
        names = {role: find_column(role, frame.columns, None) for role in ("user", "item")}
        if names["item"] is None:
            node.wrong(f"{node.value} has no column 'item'")
            return []
        return frame.select(pl.col(name).alias(role) for role, name in names.items() if name)
    except FmpairError as error:
        node.wrong(one_line(error))
        return []


def read_metrics(node: Node) -> tuple[str, ...]:
    """Read `metrics`, in their standard spelling."""
    metrics = [
        str(Metric.parse(entry.value))
        for entry in node.items()
        if entry.is_a(str) and entry.passes(Metric.parse, entry.value)
    ]
    return tuple(dict.fromkeys(metrics))


def read_views(node: Node) -> tuple[str, ...]:
    """Read `views`: popularity, activity, warmth, events, context:COLUMN."""
    return tuple(
        entry.value
        for entry in node.items()
        if entry.is_a(str) and (entry.value.startswith(CONTEXT) or entry.is_in("view", VIEWS))
    )


# Checks across sections.


def _check_validation(source: Source | None, split: Step | None, models: Models) -> None:
    """Check that there is a validation set if tuning or early stopping needs one."""
    if split is None or source is None:
        return
    shares = [split.options.get(name) for name in ("validation", "validation_after")]
    if any(shares) or (split.kind == "given" and source.validation is not None):
        return
    for candidate, entry in models.values():
        stop_or_tune = [key for key in ("stop", "tune") if getattr(candidate, key) is not None]
        for key in [*candidate.search, *stop_or_tune]:
            entry.at(key.partition(".")[0]).wrong(needs_validation(candidate.name))


def _check_metrics(top: Node, sections: Mapping[str, Any]) -> None:
    """Check that every metric is defined under a protocol and the `compare` metric is listed."""
    default = next(field.default for field in fields(Experiment) if field.name == "metrics")
    metrics: tuple[str, ...] = sections.get("metrics", default)
    protocols = sections["protocols"] or {"full ranking": Protocol()}
    entries = top.at("metrics").items() if "metrics" in top.value else []
    for name in metrics:
        lacking = [protocol.lacks(Metric.parse(name)) for protocol in protocols.values()]
        if lacking and all(lacking):
            node = next((entry for entry in entries if entry.value == name), top)
            node.wrong(f"{name} needs a protocol with {lacking[0]}")
    if sections["compare"].metric is not None and metrics:
        top.at("compare").at("metric").is_in("metric", metrics)


def _check_cells(top: Node, models: Models, split: Step, seeds: Sequence[int]) -> None:
    folds = schema.fold_count(split)
    counts = [len(model.seeds or seeds) for model, _ in models.values()]
    cells = folds * sum(counts)
    if cells > MAX_CELLS:
        top.wrong(
            f"{len(models):,} models, {folds:,} folds and {max(counts):,} seeds make {cells:,} "
            f"fits, the limit is {MAX_CELLS:,}"
        )
        top.mistakes.check()


# Named rules: YAML with the options of `recommend` under each name.


def read_rules(path: str | Path) -> dict[str, Rules]:
    """Return the rules of a YAML file by name; raise ConfigError for all mistakes in it.

    front_page:
      where: [in_stock=true, price<=50]
      limit: {brand: 2}
      boost: {brand: {ACME: 0.3}}
      diversity: 0.3
      exclude_shown: 7d
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise refused(f"cannot read the rules {str(path)!r}: {reason}") from None
    values = parse_yaml(text, str(path)).values
    if not isinstance(values, Mapping) or not values:
        raise refused(f"{path}: give names with their rules, such as front_page: {{limit: ...}}")
    rules, mistakes = {}, []
    for name, options in values.items():
        try:
            rules[str(name)] = replace(_rules(options), file=str(path), name=str(name))
        except FmpairError as error:
            mistakes.append(f"{path}: {name}: {error.spelled(in_file)}")
    if mistakes:
        raise ConfigError(mistakes)
    return rules


def named_rules(rules: Mapping[str, Rules], name: str) -> Rules:
    """Return the rules of a name; raise OptionError if there are none."""
    if name not in rules:
        raise OptionError(unknown("rules", name, rules))
    return rules[name]


def _rules(options: object) -> Rules:
    if not isinstance(options, Mapping):
        raise OptionError(f"rules are {', '.join(RULE_KEYS)}, not {json.dumps(options)}")
    for key in options:
        if key not in RULE_KEYS:
            raise OptionError(unknown("rule", key, RULE_KEYS))
    return rules_of(**options) or Rules()
