"""Every example on public data runs, with fewer epochs: apart from the others, to run beside them.

What full fits come to on these data is asked in test_real_data.py and in benchmarks/.
"""

import pytest
from example_runs import OF_PUBLIC_DATA, assert_reported, read_of, run_of

pytestmark = [pytest.mark.slow, pytest.mark.realdata]

# Fewer factors and folds, and no trials, which test_defaults_on_logs.py asks about.
FEWER = {
    "frappe": [f"models.{n}.{o}" for n in (1, 2) for o in ("factors=8", "order=2", "times=false")],
    "movielens": [
        "split.count=2",
        "filter=[{sampled: {count: 4000}}, above_mean]",
        "models.1.factors=8",
        *(
            f"models.{n}.{o}"
            for n in (2, 3)
            for o in ("factors=8", "order=2", "times=false", "history=0")
        ),
    ],
    "sequences": [f"models.{n}.factors=8" for n in (4, 5, 6)],
}


@pytest.mark.parametrize("path", OF_PUBLIC_DATA, ids=lambda path: path.stem)
def test_an_example_on_public_data_is_sound(path):
    assert len(read_of(path).models) > 1


QUICK = "movielens"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem == QUICK else pytest.mark.thorough, id=path.stem)
     for path in OF_PUBLIC_DATA],
)  # fmt: skip
def test_an_example_on_public_data_runs_and_writes_its_report(path, tmp_path, monkeypatch):
    monkeypatch.setattr("fmpair.report.figures.available", lambda: False)  # tests/report draws
    overrides = FEWER.get(path.stem, ())
    assert_reported(run_of(path, tmp_path, overrides, epochs=2), tmp_path)
