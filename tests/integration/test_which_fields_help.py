"""From an experiment file to the table of fields, on data whose answer is known."""

import numpy as np
import polars as pl

from fmpair.config.read import read
from fmpair.experiment.run import run
from fmpair.report.model_comparison import comparison
from fmpair.testing import day_and_night

FILE = """\
data: {path: clicks.csv}
split: {kind: folds, count: 2, seed: 0}
models:
  - {kind: fm-pair, name: FM-Pair, factors: 6, epochs: 15, ablation: both}
protocols: {full ranking: {seen: none}}
metrics: [ndcg@5]
output: {folder: ran, refit: false}
run: {threads: 1}
"""


def test_the_column_that_decides_helps_and_noise_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = day_and_night(users=100).frame()
    moon = np.random.default_rng(1).integers(0, 4, len(events))
    events.with_columns(moon=pl.Series([f"moon {n}" for n in moon])).write_csv("clicks.csv")
    (tmp_path / "fields.yaml").write_text(FILE)
    results = run(read("fields.yaml"))
    assert results.cells["error"].drop_nulls().to_list() == []
    found = comparison(results, "full ranking").fields["FM-Pair"]
    verdicts = dict(found.select("field", "verdict").rows())
    assert verdicts == {"all fields": "helps", "time": "helps", "moon": "undecided"}
    alone = dict(found.select("field", "mark").rows())
    assert (alone["time"], alone["moon"]) == ("+", "")
    # Two fields: without one is with the other only, and such cells are computed once.
    assert len(results.cells) == 2 * 6 and results.cells["cell"].n_unique() == 2 * 4
