"""The tables of the leaderboard, from its results: docs/benchmarks.md, docs/model.md, README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import rectools_lists
from published import ROWS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard.jsonl"
Row = Mapping[str, Any]

# Set -> (title, training and test events).
SECTIONS = {
    "amazon-beauty": (
        "Amazon Beauty, next item",
        "Each user's last product is ranked among all products that are new to the user. Models "
        "are not trained on the last two events of each user; the last but one is only history.",
    ),
    "amazon-sports": (
        "Amazon Sports, next item", "Split and evaluation are those of Amazon Beauty.",
    ),
    "ml-1m-sequences": (
        "MovieLens 1M, next item",
        "Split and evaluation are those of Amazon Beauty. Events are in the order that SASRec and "
        "its successors use.",
    ),
    "amazon-cds": (
        "Amazon CDs",
        "The split of UltraGCN. All items are ranked for every user. The order of events is not "
        "known.",
    ),
    "yelp2018": (
        "Yelp2018",
        "The split of LightGCN. All items are ranked for every user. The order of events is not "
        "known.",
    ),
    "frappe-cfm": (
        "Frappe, apps in context",
        "The split of CFM. For every user and context of the test set all 4,082 apps are ranked, "
        "except those that the user has opened in that context before.",
    ),
    "yoochoose-100k": (
        "Yoochoose, anonymous sessions",
        "An extract of 100,000 clicks, prepared by session-rec. The test sessions are later than "
        "the training sessions. Every click but the first of a session is predicted, also of items "
        "clicked before.",
    ),
    "ml-1m-ncf": (
        "MovieLens 1M, leave-one-out of NCF",
        "Each user's last film is ranked among the 99 other films that the published files list. "
        "Published rows do not use the order of events; nor does `--model no-history`.",
    ),
    "ml-100k": (
        "MovieLens 100K",
        "A random quarter of the ratings is held out. All ratings are positive. Attributes and "
        "times are not used.",
    ),
    "ml-1m-clock": (
        "MovieLens 1M split by time, last event",
        "One cut in time for all users, after nine tenths of the events, as in *Time to Split*. "
        "The last event of each of 1,209 users is predicted from all events before it. Models are "
        "not trained on events after the cut.",
    ),
    "ml-1m-windows": (
        "MovieLens 1M split by time, three cuts",
        "Each of the three latest tenths of the events is predicted by a model trained on all "
        "earlier events. ± is the standard deviation over the three. In the first two, three "
        "quarters of the events are of users without earlier events.",
    ),
    "ml-100k-clock": (
        "MovieLens 100K split by time",
        "One cut in time, after nine tenths of the events. Every later event is predicted.",
    ),
    "yoochoose-clock": (
        "Yoochoose split by time",
        "Every click after the cut is predicted, also the first click of each session.",
    ),
}  # fmt: skip
LABELS = {
    "defaults": "**`FMPair()`**", "tuned": "**`FMPair()`, tuned for 5 minutes**",
    "by-hand": "**FM-Pair, set by hand**", "no-history": "**`FMPair(history=0)`**",
    "defaults-with-validation": "**`FMPair()`**", "popularity": "popularity",
    "popular-lately": "popularity of the last week", "item-knn": "item neighbours",
    "markov-chain": "Markov chain", "v-sknn": "V-SKNN", "ease": "EASE",
    "implicit-als": "ALS of implicit, 128 factors", "sasrec": "SASRec of RecTools",
    "hstu": "HSTU of RecTools",
}  # fmt: skip
# Results whose training differs from that of the other rows -> what differs.
UNLIKE = {"defaults-with-validation": "also trained on the validation event"}
# Titles of README.md, in its order.
FRONT = {
    "amazon-cds": "Amazon CDs, split of UltraGCN", "yelp2018": "Yelp2018, split of LightGCN",
    "amazon-sports": "Amazon Sports, next item", "amazon-beauty": "Amazon Beauty, next item",
    "ml-1m-sequences": "MovieLens 1M, next item",
    "ml-1m-clock": "MovieLens 1M, last event after one cut in time",
    "frappe-cfm": "Frappe, apps in context",
    "yoochoose-100k": "Yoochoose, next click of anonymous sessions",
}  # fmt: skip
BESIDE = ("markov-chain", "v-sknn", "ease")


def read_results(path: Path = RESULTS) -> list[Row]:
    """Return the lines of a file; of several with one set, model, device and seed the last."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return list({tuple(row[k] for k in ("set", "model", "device", "seed")): row
                 for row in rows}.values())  # fmt: skip


def write(rows: Sequence[Row]) -> None:
    """Put the tables between the marks of the three pages."""
    for path, text in pages(rows).items():
        (ROOT / path).write_text(text, "utf-8")


def pages(rows: Sequence[Row]) -> dict[str, str]:
    """Return the text of each page, with new tables."""
    made = {
        "docs/benchmarks.md": ("results", board(rows)),
        "docs/model.md": ("defaults", overview(rows)),
        "README.md": ("results", front(rows)),
    }
    return {path: _between((ROOT / path).read_text("utf-8"), *part) for path, part in made.items()}


def _between(text: str, mark: str, made: str) -> str:
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"


def board(rows: Sequence[Row]) -> str:
    """Return a section for each set that has results, then what is not like for like."""
    found = [section(name, [r for r in rows if r["set"] == name]) for name in SECTIONS]
    return "\n\n".join([*(text for text in found if text), unlike_table(rows)])


def section(name: str, rows: Sequence[Row]) -> str:
    """Return title, split and table of one set, best first by the second metric."""
    rows = [row for row in rows if not unlike(row)]
    if not rows:
        return ""
    title, note = SECTIONS[name]
    if not any(row["model"] == "defaults" for row in rows):
        note += " `FMPair()` has not been run here yet."
    metrics = list(rows[0]["values"])
    lines = [f"## {title}", "", note]
    splits = sorted({row["split"] for row in rows})
    lines += [f"Split{'s' * (len(splits) > 1)} `{'`, `'.join(splits)}`.", ""]
    heads = ["", *metrics, "device", "seeds", "seconds", "memory", "repeat, or source"]
    lines += [_line(heads), _line(["---", *["--:"] * 2, "---", *["--:"] * 3, "---"])]
    table = [(mean_of(group), _own(name, group)) for group in _groups(rows)]
    for row in ROWS:
        if row.set == name and not row.unlike:
            figures = map(_figure, row.values)
            table.append(
                (row.values, [f"{row.method}, published", *figures, *[""] * 4, row.source])
            )
    lines += [_line(cells) for _, cells in sorted(table, key=lambda pair: -pair[0][1])]
    return "\n".join(lines)


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the seeds of each model and device."""
    ordered = sorted(rows, key=_key)
    return [list(group) for _, group in groupby(ordered, _key)]


def _key(row: Row) -> tuple[str, str]:
    return row["model"], row["device"]


def _own(name: str, group: Sequence[Row]) -> list[str]:
    """Return the cells of one of our rows."""
    first = group[0]
    model, device = _key(first)
    values = [[row["values"][metric] for row in group] for metric in first["values"]]
    seconds = f"{median(row['seconds'] for row in group):.4g}"
    if "seconds_to_best" in first:
        seconds += f" (best after {median(row['seconds_to_best'] for row in group):.3g})"
    memory = f"{max(row['peak_mb'] for row in group) / 1024:.1f} GB"
    if "gpu_mb" in first:
        memory += f" + {max(row['gpu_mb'] for row in group) / 1024:.1f}"
    command = f"`python benchmarks/leaderboard.py {name} --model {model} --device {device}`"
    return [LABELS[model], *map(_spread, values), device, str(len(group)), seconds, memory, command]


def mean_of(group: Sequence[Row]) -> tuple[float, ...]:
    """Return the mean of each metric over seeds."""
    return tuple(mean(row["values"][metric] for row in group) for metric in group[0]["values"])


def _spread(values: Sequence[float]) -> str:
    """Return the mean, and the deviation where it is not 0."""
    shown = _figure(mean(values))
    deviation = stdev(values) if len(values) > 1 else 0.0
    return f"{shown} ± {_figure(deviation)}" if round(deviation, 4) else shown


def _figure(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def unlike(row: Row) -> str:
    """Return what differs from the other rows of the set; empty where nothing does."""
    if row["model"] in rectools_lists.MODELS:
        return rectools_lists.unfinished(row)
    return UNLIKE.get(row["model"], "")


def unlike_table(rows: Sequence[Row]) -> str:
    """Return the rows whose training or test events differ from those of the sections above."""
    heads = ["set", "", "first metric", "second metric", "what differs", "repeat, or source"]
    note = "Do not compare these rows with those above: their training or test events differ."
    lines = ["## Not like for like", "", note, ""]
    lines += [_line(heads), _line(["---", "---", "--:", "--:", "---", "---"])]
    apart = sorted((row for row in rows if unlike(row)), key=lambda row: (row["set"], *_key(row)))
    for (name, *_), group in groupby(apart, key=lambda row: (row["set"], *_key(row))):
        own = list(group)
        cells = _own(name, own)
        lines.append(_line([name, *cells[:3], unlike(own[0]), cells[-1]]))
    for row in ROWS:
        if row.unlike:
            figures = map(_figure, row.values)
            cells = [row.set, f"{row.method}, published", *figures, row.unlike, row.source]
            lines.append(_line(cells))
    return "\n".join(lines)


def overview(rows: Sequence[Row]) -> str:
    """Return a row for each set: defaults by device, tuned, by hand, best published."""
    columns = (("defaults", "cpu"), ("defaults", "cuda"), ("tuned", "cuda"), ("by-hand", None))
    heads = ["", "metrics", "`FMPair()`, CPU", "`FMPair()`, GPU", "tuned for 5 minutes, GPU",
             "by hand", "best published"]  # fmt: skip
    lines = [_line(heads), _line(["---"] * 2 + ["--:"] * 4 + ["---"])]
    for name, (title, _) in SECTIONS.items():
        own = [row for row in rows if row["set"] == name]
        if not any(row["model"] == "defaults" for row in own):
            continue
        cells = [_of(own, *column) for column in columns]
        metrics = " / ".join(own[0]["values"])
        lines.append(_line([title, metrics, *cells, _best_published(name)]))
    return "\n".join(lines)


def _of(rows: Sequence[Row], model: str, device: str | None, metric: int | None = None) -> str:
    """Return the means of one model, or one of them, with the number of seeds."""
    found = [r for r in rows if r["model"] == model and device in (None, r["device"])]
    if not found:
        return ""
    values = mean_of(found)
    if metric is not None:
        return _figure(values[metric])
    return " / ".join(map(_figure, values)) + f" ({len(found)})"


def _best_published(name: str, metric: int | None = None) -> str:
    """Return the best published row by the second metric, and a better one that is unlike ours."""
    like, unlike = (
        [r for r in ROWS if r.set == name and bool(r.unlike) is u] for u in (False, True)
    )
    best = sorted(like, key=lambda row: -row.values[1])[:1]
    beyond = best[0].values[1] if best else 0.0
    best += sorted((r for r in unlike if r.values[1] > beyond), key=lambda r: -r.values[1])[:1]
    texts = []
    for row in best:
        values = row.values if metric is None else [row.values[metric]]
        mark = " \\*" if row.unlike else ""
        texts.append(f"{row.method} {' / '.join(map(_figure, values))}{mark}")
    return ", ".join(texts)


def front(rows: Sequence[Row]) -> str:
    """Return the table of README.md: the second metric of each set, beside classic models."""
    heads = ["data", "metric", "`FMPair()`, CPU", "`FMPair()`, GPU", "classic models", "published"]
    lines = [_line(heads), _line(["---", "---", "--:", "--:", "---", "---"])]
    for name, title in FRONT.items():
        own = [row for row in rows if row["set"] == name]
        if not own:
            continue
        metric = list(own[0]["values"])[1].upper()
        cells = [_of(own, "defaults", device, 1) for device in ("cpu", "cuda")]
        beside = [(model, _of(own, model, None, 1)) for model in BESIDE]
        ran = ", ".join(f"{LABELS[model]} {value}" for model, value in beside if value)
        lines.append(_line([title, metric, *cells, ran, _best_published(name, 1)]))
    return "\n".join(lines)
