import json

import polars as pl
import pytest

from fmpair.config.option_schema import json_schema
from fmpair.report import figures
from fmpair.testing import purchase_log


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def experiment(here):
    (here / "a.yaml").write_text(
        "data: {generate: {users: 20, items: 10, events: 200}}\n"
        "split: {kind: folds, count: 3}\n"
        "models: [popularity, {kind: fm-pair, factors: {grid: [2, 4]}}]\n"
        "seeds: [0, 1]\n"
    )
    return "a.yaml"


def test_validate_says_what_would_run(fmpair, experiment, here):
    result = fmpair("validate", experiment)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "data       generated {'users': 20, 'items': 10, 'events': 200}",
        "then       folds",
        "models     popularity, fm-pair factors=2, fm-pair factors=4",
        "cells      18 = 3 models x 3 folds x 2 seeds",
        "protocols  full ranking, seen items by how often users repeat them",
        "metrics    recall@10, ndcg@10",
        f"results    {here}/runs/a",
    ]


def test_validate_names_filters_that_act_after_the_split(fmpair, experiment):
    result = fmpair("validate", experiment, "filter=[distinct, faded]")
    line = "then       distinct folds; after the split, on test events too: faded"
    assert line in result.out.splitlines()


def test_validate_lists_all_mistakes_and_fails(fmpair, experiment):
    result = fmpair("validate", experiment, "run.worker=2", "seeds=[x]")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "error: command line: seeds.0: a seed must be a whole number of at least 0, not 'x'",
        "error: command line: run.worker: unknown option 'worker'. Did you mean 'workers'? Known: "
        "workers, threads, device, curve",
    ]


def test_validate_looks_at_the_header_of_the_data(fmpair, experiment):
    result = fmpair("validate", experiment, "views=[context:daytme]")
    assert result.code == 1
    assert result.err == (
        "error: command line: views.0: unknown column 'daytme'. Did you mean 'daytime'? Known: "
        "timestamp, domain, daytime, place\n"
    )


def test_schema_is_printed_or_written(fmpair, here):
    printed = fmpair("schema")
    assert json.loads(printed.out) == json.loads(json.dumps(json_schema()))
    assert fmpair("schema", "-o", "s.json").code == 0
    assert (here / "s.json").read_text() == printed.out


def test_init_writes_a_file_that_is_valid(fmpair, files, here):
    told = fmpair("init", files / "events.csv").err.splitlines()
    assert told[0] == "wrote experiment.yaml"
    assert [line.split()[:2] for line in told[-2:]] == [
        ["daytime", "context"],
        ["place", "context"],
    ]
    result = fmpair("validate", "experiment.yaml")
    assert result.code == 0, result.err
    assert "cells      21 = 7 models x 1 fold x 3 seeds" in result.out
    assert fmpair("init", files / "events.csv", "-o", "-").out.count("kind: fm-pair") == 3


def test_init_takes_tables_and_merges_and_says_what_repeats(fmpair, here):
    purchase_log(60, 40, 800).write_csv(here / "shop.csv")
    pl.DataFrame({"product_id": ["sku-00001"], "brand": ["x"]}).write_csv(here / "goods.csv")
    for asked in ([], ["--dry-run"]):
        told = fmpair("init", "shop.csv", *asked).err.splitlines()
        assert told[-1].startswith("25% of the events repeat the item of the user's event before")
    options = ("--merge-repeats", "30", "--items", "goods.csv", "-o", "-")
    result = fmpair("init", "shop.csv", *options)
    assert "merge_repeats: 30.0\n  items: goods.csv\n" in result.out
    assert "repeat the item" not in result.err


def test_init_does_not_write_over_a_file_unless_forced(fmpair, files, here):
    (here / "e.yaml").write_text("mine")
    result = fmpair("init", files / "events.csv", "-o", "e.yaml")
    assert result.code == 1
    assert (
        result.err
        == "error: e.yaml exists already: --force overwrites it, -o FILE writes elsewhere\n"
    )
    assert (here / "e.yaml").read_text() == "mine"
    assert fmpair("init", files / "events.csv", "-o", "e.yaml", "--force").code == 0
    assert "models:" in (here / "e.yaml").read_text()


def test_init_takes_the_names_of_columns(fmpair, here):
    (here / "c.csv").write_text("who,what\n" + "ann,maps\nbob,mail\ncem,news\n" * 5)
    assert "no user column found" in fmpair("init", "c.csv").err
    result = fmpair("init", "c.csv", "--user", "who", "--item", "what")
    assert result.code == 0, result.err
    assert fmpair("validate", "experiment.yaml").code == 0


def test_validate_says_that_it_does_not_look_into_code_from_outside(fmpair, experiment, here):
    (here / "stranger_model.py").write_text("raise SystemExit('this ran')\n")
    result = fmpair("validate", experiment, "models.0={kind: 'stranger_model:Model', size: 3}")
    assert result.code == 0
    assert result.err == (
        "the options of 'stranger_model:Model' are not checked: that would run its code, which "
        "needs run --allow-code\n"
    )
    assert "models     stranger_model:Model, fm-pair factors=2" in result.out


def test_validate_says_what_is_missing_to_run(fmpair, experiment, monkeypatch):
    assert "figures" not in fmpair("validate", experiment).out
    monkeypatch.setattr(figures, "available", lambda: False)
    result = fmpair("validate", experiment)
    assert result.code == 0
    assert "figures    none without matplotlib: pip install 'fmpair[report]'" in result.out
