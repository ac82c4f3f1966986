"""A small valid input of every reader: its files, and how they are read."""

import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fmpair.config.migration import migrate
from fmpair.config.read import read as read_experiment
from fmpair.config.read import validate
from fmpair.config.starter import starter
from fmpair.data import parts
from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.read import read
from fmpair.evaluation.given_lists import read_lists

USERS, ITEMS = ("ann", "bob", "cem", "dee"), ("maps", "mail", "news", "chess", "radio")


@dataclass(frozen=True)
class Sample:
    """files: content by name; read: from a folder with those files, to anything at all."""

    files: dict[str, bytes]
    read: Callable[[Path], object]


def events():
    """Twenty events with a context, a rating and a time."""
    return pl.DataFrame(
        {
            "user": [USERS[n % 4] for n in range(20)],
            "item": [ITEMS[n * n % 5] for n in range(20)],
            "daytime": [("morning", "evening")[n % 2] for n in range(20)],
            "rating": [n % 5 + 1 for n in range(20)],
            "timestamp": [f"2024-01-{n + 1:02} 12:30:00" for n in range(20)],
        }
    )


def lines(*rows):
    return "".join(f"{row}\n" for row in rows).encode()


def parquet(frame, **options):
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **options)
    return buffer.getvalue()


def packed(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


CSV = events().write_csv().encode()
ITEM_TABLE = lines("item,topic,price", *(f"{i},{'fun' if n % 2 else 'work'},{n}.5" for n, i in
                                         enumerate(ITEMS)))  # fmt: skip
SHOWN = lines("user,item", "ann,radio", "bob,chess")
NUMBERS = [(n % 4 + 1, n * n % 5 + 1, n % 5 + 1, 874965758 + n) for n in range(20)]

ML_100K = {
    "u.data": lines(*("\t".join(map(str, row)) for row in NUMBERS)),
    "u.user": lines(*(f"{n}|{20 + n}|{'MF'[n % 2]}|writer|{n}5213" for n in range(1, 5))),
    "u.item": lines(*(f"{n}|Film {n} (199{n})|01-Jan-199{n}||http://x.org/{n}|" + "|".join(
        str(int(g % n == 0)) for g in range(19)) for n in range(1, 6))),
}  # fmt: skip
ML_1M = {
    "ratings.dat": lines(*("::".join(map(str, row)) for row in NUMBERS)),
    "users.dat": lines(*(f"{n}::{'MF'[n % 2]}::{20 + n}::{n}::0{n}213" for n in range(1, 5))),
    "movies.dat": lines(*(f"{n}::Film {n} (199{n})::Drama|War" for n in range(1, 6))),
}
FRAPPE = {
    "frappe.csv": lines(
        "user\titem\tcnt\tdaytime\tweather\tcity\tcost",
        *(f"{u}\t{i}\t{r}\tmorning\tsunny\t{n % 3}\tfree" for n, (u, i, r, _) in
          enumerate(NUMBERS)),
    ),
    "meta.csv": lines(
        "item\tcategory\tdownloads\tdeveloper\tlanguage\tprice\trating",
        *(f"{n}\tTools\t100 - 500\tx{n}\ten\t${n}.50\t4.{n}" for n in range(1, 6)),
    ),
}  # fmt: skip
LIBFM = {
    "a.libfm": lines(*(f"{r} {u - 1}:1 {i + 3}:1 {9 + r % 2}:1 11:0.{r} # x" for u, i, r, _ in
                       NUMBERS)),
    "a.libfm.groups": lines(*[0] * 4, *[1] * 5, *[2] * 2, 3),
}  # fmt: skip
ATOMIC = {
    "a.inter": lines("user_id:token\titem_id:token\trating:float\twhen:float\ttags:token_seq",
                     *(f"{u}\t{i}\t{r}\t{t}\tx y{r}" for u, i, r, t in NUMBERS)),
    "a.user": lines("user_id:token\tage:float", *(f"{n}\t{20 + n}" for n in range(1, 5))),
    "a.item": lines("item_id:token\tsize:float_seq", *(f"{n}\t1.5 {n}" for n in range(1, 6))),
}  # fmt: skip
LISTS = lines("user,item,score", *(f"{u},{i},{n}.5" for n, (u, i, _, _) in enumerate(NUMBERS)))
RUN = lines(*(f"u{u} Q0 i{n} {n} {20 - n}.5 tag" for n, (u, _, _, _) in enumerate(NUMBERS)))

YAML = b"""\
extends: base.yaml
name: fuzz
data: {path: clicks.csv, rating: rating, timestamp: timestamp, items: {path: items.csv}}
filter: [{at_least: {threshold: 2}}, {kind: merge_duplicates, context: true}]
split: {kind: folds, count: 2, seed: 0, validation: 0.1}
models:
  - popularity
  - &first {kind: bpr-mf, name: mf, factors: {grid: [2, 4]}, epochs: 2, stop: 3}
  - <<: *first
    name: tuned
    factors: {search: [2, 4]}
    learning_rate: {search: {low: 0.01, high: 0.3, log: true}}
  - kind: fm-pair
    fields: {daytime: {start: 0.5}}
protocols: {full ranking: {unit: interaction}, few: {candidates: uniform, n: 3, items: null}}
metrics: [ndcg@10, recall@5]
views: [popularity, "context:daytime"]
seeds: [0, 1]
"""
BASE = b"""\
tune: {trials: 3, metric: ndcg@10}
compare: {baseline: popularity, level: 0.05, test: t}
run: {workers: 1, threads: 1, curve: 0}
output: {folder: results, models: false, refit: true}
"""
JSON = b"""\
{
  "name": "fuzz",
  "data": {"path": "clicks.csv", "context": ["daytime"], "ignore": []},
  "split": {"kind": "holdout", "test": 0.25, "validation": 0.1},
  "models": ["random", {"kind": "item-knn", "k": {"grid": [5, 10]}}],
  "metrics": ["ndcg@10"], "seeds": [3]
}
"""
TOML = b"""\
name = "fuzz"
metrics = ["ndcg@10", 'recall@5']
[data.generate]
users = 20
items = 10
events = 200
[split]
kind = "holdout"
test = 0.25
[[models]]
kind = "popularity"
[[models]]
kind = "implicit-als"
factors = {grid = [2, 4]}
regularization = 1e-2
[tune]
trials = 3
"""
XML = rb"""<?xml version="1.0" encoding="utf-8"?>
<wraprec>
  <parameters><param name="folds" value="3"/><param name="root" value="{here}"/>
    <param name="here" value="."/></parameters>
  <models>
    <model id="mp" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="MyMediaLite.dll:MyMediaLite.ItemRecommendation.MostPopular" />
    </model>
    <model id="fm" class="WrapRec.Extensions.dll:WrapRec.Extensions.Models.MmlBprfmRecommender">
      <parameters ml-class="WrapRec.Extensions.dll:WrapRec.Extensions.Models.BPRFM"
        NumFactors="4,8" NumIter="2" LearnRate="0.05" RegU="0.01" UniformUserSampling="true,false"/>
    </model>
  </models>
  <data>
    <dataReaders>
      <reader id="all" path="{root}/clicks.csv" dataType="posFeedback" hasHeader="true"
        delimiter="," header="user,item,daytime:d,rating:r,timestamp:n" />
      <reader id="topics" path="{root}/items.csv" dataType="itemAttributes" hasHeader="true" />
    </dataReaders>
    <dataContainers><dataContainer id="all" dataReaders="all,topics" /></dataContainers>
  </data>
  <splits>
    <split id="cv" type="crossValidation" dataContainer="all" numFolds="{folds}" />
    <split id="share" type="dynamic" dataContainer="all" trainRatios="0.5,0.75" />
  </splits>
  <evalContexts><evalContext id="e">
    <evaluator class="WrapRec.Evaluation.RankingEvaluatorsOpr" numCandidates="10,max" cutOffs="5"/>
    <evaluator class="WrapRec.Evaluation.RMSE" />
  </evalContext></evalContexts>
  <experiments run="first" resultsFolder="results" parallel="true">
    <experiment id="first" models="mp,fm" splits="cv,share" evalContext="e" multiEval="2" />
  </experiments>
</wraprec>
"""
TABLES = {"clicks.csv": CSV, "items.csv": ITEM_TABLE}
SPLITS = pl.DataFrame({"row": [0, 1, 2, 0, 1, 2], "fold": [0, 0, 0, 1, 1, 1],
                       "part": ["train", "test", "train", "test", "train", "train"]})  # fmt: skip


def reads(name, **options):
    return lambda folder: read(folder / name, **options)


def migrated(folder):
    """Every file the configuration becomes, its text read back."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    for one in migrate(folder / "a.xml", folder=out):
        (out / f"{one.name}.yaml").write_text(one.text(), "utf-8")
        try:
            read_experiment(out / f"{one.name}.yaml")
        finally:
            (out / f"{one.name}.yaml").unlink()


def started(folder):
    """The experiment file that `init` would write, read back."""
    (folder / "started.yaml").write_text(starter(folder / "a.csv", beside=folder), "utf-8")
    return read_experiment(folder / "started.yaml")


SAMPLES = {
    "csv": Sample({"a.csv": CSV, "items.csv": ITEM_TABLE, "shown.csv": SHOWN},
                  lambda folder: read(folder / "a.csv", items=str(folder / "items.csv"),
                                      impressions=str(folder / "shown.csv"))),
    "tsv": Sample({"a.tsv": CSV.replace(b",", b"\t")}, reads("a.tsv")),
    "rare": Sample({"a.dat": CSV.replace(b",", b"\xc2\xa7\xc2\xa7")},
                   reads("a.dat", separator="\xa7\xa7", format="delimited")),
    "bare": Sample({"a.csv": CSV.split(b"\n", 1)[1]},
                   reads("a.csv", header=False, columns=["user", "item", "c", "r", "t"])),
    "gzip": Sample({"a.csv.gz": gzip.compress(CSV, mtime=0)}, reads("a.csv.gz")),
    "zip": Sample({"a.csv.zip": packed({"a.csv": CSV, "b.csv": SHOWN})}, reads("a.csv.zip")),
    "parquet": Sample({"a.parquet": parquet(events())}, reads("a.parquet")),
    "plain parquet": Sample({"a.parquet": parquet(
        events().with_columns(tags=["a", "b"], share=pl.col("rating") / 7),
        compression="uncompressed")}, reads("a.parquet")),
    "jsonl": Sample({"a.jsonl": events().write_ndjson().encode()}, reads("a.jsonl")),
    "json": Sample({"a.json": events().write_json().encode()}, reads("a.json")),
    "nested": Sample({"a.jsonl": events().with_columns(tags=["a", "b"], at=pl.struct("rating"))
                      .write_ndjson().encode()}, reads("a.jsonl")),
    "movielens 100k": Sample(ML_100K, reads("", titles=True)),
    "movielens 1m": Sample(ML_1M, reads("")),
    "movielens zip": Sample({"m.zip": packed(ML_1M)}, reads("m.zip")),
    "frappe": Sample(FRAPPE, reads("", meta=True)),
    "cfm": Sample({"a.cfm": lines(*(f"{u}-{4 + n % 2}-{6 + n % 3},{9 + i}-20" for n, (u, i, _, _)
                                    in enumerate(NUMBERS)))}, reads("a.cfm", format="cfm")),
    "lightgcn": Sample({"a.txt": lines("0 1 2 3", "1 3", "2 0 1", "3")},
                       reads("a.txt", format="lightgcn")),
    "sequences": Sample({"a.txt": lines("0 1 2 3", "1 3", "2 0 1", "3")},
                        reads("a.txt", format="sequences")),
    "citeulike": Sample({"users.dat": lines("2 0 2", "0", "1 1"), "tags.dat": lines("maps", "fish"),
                         "item-tag.dat": lines("2 1 0", "0", "1 1")}, reads("")),
    "libfm": Sample(LIBFM, reads("a.libfm", names=("user", "item", "daytime"))),
    "atomic": Sample(ATOMIC, reads("")),
    "wraprec": Sample({"a.csv": CSV}, reads(
        "a.csv", format="wraprec", types={"daytime": "discrete", "rating": "real",
                                          "item": "multi-discrete", "timestamp": "ignored"},
        item="daytime")),
    "ncf": Sample({"a.rating": ML_100K["u.data"]}, reads("a.rating")),
    "negatives": Sample({"a.negative": lines("(0,25)\t1\t2\t3", "(1,3)\t4\t5")},
                        lambda folder: read_negatives(folder / "a.negative")),
    "trec": Sample({"a.trec": RUN}, lambda folder: read_lists(folder / "a.trec")),
    "lists": Sample({"a.csv": LISTS}, lambda folder: read_lists(folder / "a.csv")),
    "splits": Sample({"s.parquet": parquet(SPLITS)},
                     lambda folder: parts.load(folder / "s.parquet")),
    "yaml": Sample({"a.yaml": YAML, "base.yaml": BASE, **TABLES},
                   lambda folder: validate(folder / "a.yaml")),
    "json experiment": Sample({"a.json": JSON, **TABLES},
                              lambda folder: read_experiment(folder / "a.json")),
    "toml": Sample({"a.toml": TOML}, lambda folder: read_experiment(folder / "a.toml")),
    "overrides": Sample({"a.toml": TOML, "override": b"models.1.factors={grid: [3, 5]}"},
                        lambda folder: read_experiment(
                            folder / "a.toml",
                            [(folder / "override").read_bytes().decode("latin-1")])),
    "starter": Sample({"a.csv": CSV}, started),
    "packed events": Sample(
        {"a.csv.gz": gzip.compress(CSV, mtime=0),
         "a.yaml": b"data: {path: a.csv.gz}\nmodels: [random]\n"},
        lambda folder: validate(folder / "a.yaml")),
    "wraprec xml": Sample({"a.xml": XML, **TABLES}, migrated),
}  # fmt: skip
