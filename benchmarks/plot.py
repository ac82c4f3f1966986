"""Plots of the CSV files in a folder; run with the peers' Python, which has matplotlib."""

import csv
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fmpair"  # the same numbers give the same file
import matplotlib.pyplot as plt  # noqa: E402

COSTS = ("factors", "contexts", "item attributes")


def main(folder):
    for name, draw in {"speed": speed, "scale": scale, "quality-curve": quality}.items():
        path = folder / f"{name}.csv"
        if path.exists():
            save(draw(rows_of(path)), folder / f"{name}.svg")
    if (folder / "cold_items.jsonl").exists():
        text = (folder / "cold_items.jsonl").read_text(encoding="utf-8")
        rows = [row for row in map(json.loads, text.splitlines()) if row["part"] == "curve"]
        if rows:
            save(few_events(rows), folder / "cold-items.svg")
    if (folder / "cost-of-factors.csv").exists():
        save(costs(folder), folder / "cost.svg")


def speed(rows):
    """Bars: one group per set, factors and threads, one bar per library."""
    libraries = [
        name for name in rows[0] if name not in ("data", "factors", "threads") and name[:2] != "x "
    ]
    figure, axes = plt.subplots(figsize=(11, 4))
    for n, library in enumerate(libraries):
        places = [at + n / (len(libraries) + 1) for at in range(len(rows))]
        axes.bar(places, [row[library] for row in rows], 1 / (len(libraries) + 1), label=library)
    labels = [f"{r['data']}\nk={r['factors']:.0f}, {r['threads']:.0f}t" for r in rows]
    axes.set_xticks([at + 0.35 for at in range(len(rows))], labels, fontsize=8)
    axes.set_ylabel("million effective updates a second")
    axes.legend()
    return figure


def costs(folder):
    """Seconds an epoch against factors, contexts and attributes, with straight lines."""
    figure, panels = plt.subplots(1, len(COSTS), figsize=(11, 3.5), sharey=False)
    for name, axes in zip(COSTS, panels):
        rows = rows_of(folder / f"cost-of-{name.replace(' ', '-')}.csv")
        x = [row[name] for row in rows]
        axes.plot(x, [row["seconds"] for row in rows], "o")
        axes.plot(x, [row["line"] for row in rows], "-", linewidth=1)
        axes.set_xlabel(name)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("seconds an epoch")
    return figure


def scale(rows):
    """Seconds and memory against events, both axes logarithmic."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
    events = [row["events"] for row in rows]
    left.loglog(events, [row["seconds an epoch"] for row in rows], "o-")
    left.set(xlabel="events", ylabel="seconds an epoch")
    for name in ("encoded MB", "peak MB"):
        right.loglog(events, [row[name] for row in rows], "o-", label=name)
    right.set(xlabel="events", ylabel="MB")
    right.legend()
    return figure


def quality(rows):
    """Recall@10 against seconds of training."""
    figure, axes = plt.subplots(figsize=(7, 4))
    for name in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == name]
        axes.plot([r["seconds"] for r in own], [r["recall@10"] for r in own], ".-", label=name)
    axes.set(xlabel="seconds of training", ylabel="Recall@10 on held-out events")
    axes.legend()
    return figure


def few_events(rows):
    """NDCG@20 of unseen articles against how many of their events were learned from."""
    figure, axes = plt.subplots(figsize=(7, 4))
    for name in dict.fromkeys(row["model"] for row in rows):
        found = {}
        for row in rows:
            if row["model"] == name:
                found.setdefault(row["events"], []).append(row["ndcg@20"])
        counts = sorted(found)
        means = [sum(found[count]) / len(found[count]) for count in counts]
        axes.plot(counts, means, "o-", label=name)
    axes.set(xlabel="events of an article", ylabel="NDCG@20")
    axes.legend()
    return figure


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def rows_of(path):
    with path.open() as file:
        return [{k: number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def number(value):
    try:
        return float(value)
    except ValueError:
        return value


main(Path(sys.argv[1]))
