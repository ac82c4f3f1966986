"""Results beside published ones, on other people's splits.

    FMPAIR_DATA=... python benchmarks/published.py [FOLDER] [--only=NAME,...] [--write]

Runs the experiments of examples/benchmarks, all or those named, into FOLDER (runs/published unless
given; what is there already is not run again) and prints one table for each. --write puts them into
docs/benchmarks.md, in place of what it says of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report

from fmpair.config.read import read
from fmpair.data import public_sets
from fmpair.data.formats.ncf import read_negatives
from fmpair.data.formats.source import locate
from fmpair.experiment.results import Results
from fmpair.experiment.run import run

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "benchmarks"
DOCS = ROOT / "docs"
NEGATIVES = "ml1m-negatives.csv"  # as examples/benchmarks/ml1m_ncf.yaml names it

# Experiment -> (its title, what to reach, what others report), metrics in the order of the file.
PUBLISHED: dict[str, tuple[str, tuple[float, float], dict[str, tuple[float, float]]]] = {
    "frappe_cfm": (
        "Frappe, split of CFM, per user and context", (0.70, 0.46), {},
    ),
    "ml1m_ncf": (
        "MovieLens 1M, leave-one-out of NCF, among the 99 negatives given", (0.730, 0.452),
        {"popularity": (0.4531, 0.2542), "ItemKNN": (0.6596, 0.3900), "NeuMF": (0.6725, 0.4011),
         "PureSVD": (0.6896, 0.4294), "iALS, 192 factors": (0.7310, 0.4521)},
    ),
    "yelp2018": (
        "Yelp2018, split of LightGCN, full ranking per user", (0.069, 0.0565),
        {"MF with BPR": (0.0576, 0.0468), "LightGCN": (0.0653, 0.0532),
         "EASE": (0.0657, 0.0552), "UltraGCN": (0.0683, 0.0561),
         "MF with a contrastive loss": (0.0698, 0.0572), "SimpleX": (0.0701, 0.0575)},
    ),
    "ml1m_sequences": (
        "MovieLens 1M as a sequence, the next item among all", (0.300, 0.175),
        {"SASRec": (0.250, 0.134), "BERT4Rec": (0.284, 0.154), "GRU4Rec": (0.281, 0.165),
         "gSASRec": (0.300, 0.173), "SASRec with full softmax": (0.315, 0.182),
         "HSTU-large": (0.329, 0.189)},
    ),
    "amazon_beauty": (
        "Amazon Beauty as a sequence, the next item among all", (0.095, 0.055),
        {"SASRec": (0.0605, 0.0318), "SASRec with sampled softmax": (0.0921, 0.0531),
         "HSTU": (0.0945, 0.0543)},
    ),
}  # fmt: skip


def main() -> None:
    folder = folder_given()
    found = {name: section(name, results_of(name, folder)) for name in names_given()}
    print("\n\n".join(found.values()))
    if "--write" in sys.argv:
        old = sections_of("benchmarks.md")
        written = [found.get(name) or old.get(PUBLISHED[name][0]) for name in PUBLISHED]
        write_results("benchmarks.md", "\n\n".join(text for text in written if text))


def names_given() -> list[str]:
    """The experiments that are asked for: all, or those of --only."""
    only = [word.removeprefix("--only=") for word in sys.argv if word.startswith("--only=")]
    return only[-1].split(",") if only else list(PUBLISHED)


def sections_of(page: str) -> dict[str, str]:
    """What a page of docs says of each experiment, by title."""
    text = (DOCS / page).read_text().split("<!-- results -->")[1].split("<!-- /results -->")[0]
    parts = [part.strip() for part in text.split("\n## ")]
    return {part.splitlines()[0].removeprefix("## "): "## " + part.removeprefix("## ")
            for part in parts if part}  # fmt: skip


def folder_given() -> Path:
    """Where runs go: the folder named on the command line, else runs/published."""
    given = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    folder = given[0] if given else ROOT / "runs" / "published"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_results(page: str, text: str) -> None:
    """Put the text between the marks of a page of docs."""
    begin, end = "<!-- results -->", "<!-- /results -->"
    before, rest = (DOCS / page).read_text().split(begin)
    (DOCS / page).write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def results_of(name: str, folder: Path) -> Results:
    """An experiment's results; cells that are done are taken from the folder."""
    changes = [f"output.folder={folder / name}", "output.refit=false"]
    changes += ["run.workers=1", "run.threads=2"]
    if name == "ml1m_ncf":
        write_negatives(folder / NEGATIVES)
        changes.append(f"protocols.among 100.items={(folder / NEGATIVES).absolute()}")
    return run(read(EXAMPLES / f"{name}.yaml", changes))


def write_negatives(path: Path) -> None:
    """The negatives that NCF gives every test event, as a table (user, item)."""
    place = locate(public_sets.fetch("ml-1m-ncf"), "ml-1m.test.negative")
    assert place is not None
    read_negatives(place[0]).select("user", "item").write_csv(path)


def section(name: str, results: Results) -> str:
    """Title, how the settings were found, and the table of one experiment."""
    title, bars, published = PUBLISHED[name]
    said = [line[2:] for line in (EXAMPLES / f"{name}.yaml").read_text().splitlines()[1:]
            if line.startswith("# ")]  # fmt: skip
    lines = [f"## {title}", "", *said, "", *table(results)]
    lines += [f"| {who}, published | {a:.4f} | {b:.4f} | | |" for who, (a, b) in published.items()]
    lines += [f"| *to reach* | {bars[0]:g} | {bars[1]:g} | | |", "", report.machine()]
    return "\n".join(lines)


def table(results: Results) -> list[str]:
    """The lines of a Markdown table: a row for each model, a column for each metric."""
    metrics = list(dict.fromkeys(results.values["metric"]))
    lines = ["| | " + " | ".join(map(label, metrics)) + " | seconds | options |",
             "|---|" + "---|" * len(metrics) + "---|---|"]  # fmt: skip
    for row in ours(results):
        values = " | ".join(f"{row[metric]:.4f}" for metric in metrics)
        seconds, options = row["train_seconds"], options_of(row["options"])
        lines.append(f"| **{row['model']}** | {values} | {seconds:.0f} | {options} |")
    return lines


def ours(results: Results) -> Iterator[dict[str, Any]]:
    """model, options, train_seconds and each metric, by model in the order of the file."""
    for cell in results.cells.iter_rows(named=True):
        values = results.values.filter(cell=cell["cell"])
        yield {**cell, **dict(values.select("metric", "value").iter_rows())}


def label(metric: str) -> str:
    """The metric without the hash of the candidates' file."""
    return metric.split("[")[0]


def options_of(options: str) -> str:
    """The options that an entry names, in short."""
    named = {k: v for k, v in json.loads(options).items() if k not in ("threads", "fields")}
    return ", ".join(f"{k} {_short(v)}" for k, v in named.items())


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{k} {v:g}" for k, v in value.items()) + ")"
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
