"""Events read, filtered and split; the device resolved."""

import polars as pl
import pytest
from tiny_run import experiment

from fmpair import device
from fmpair.config.experiment import Candidate, Running, Source, Step
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.experiment.prepared import prepare, source_files, with_defaults

EVENTS = pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": list("abcab"), "rating": [1, 5, 5, 1, 3]})
GIVEN = Step("given")


def written(folder, name, frame):
    frame.write_csv(folder / name)
    return str(folder / name)


def parts(folder, *sizes):
    first, paths = 0, []
    for number, size in enumerate(sizes):
        paths.append(written(folder, f"{number}.csv", EVENTS.slice(first, size)))
        first += size
    return paths


def test_given_files_become_the_parts_of_one_split(tmp_path):
    train, validation, test = parts(tmp_path, 2, 1, 2)
    bench = prepare(Source(train=train, validation=validation, test=test), (), GIVEN)
    (split,) = bench.splits
    sizes = [rows.tolist() for rows in (split.train, split.validation, split.test)]
    assert sizes == [[0, 1], [2], [3, 4]]
    assert bench.data.frame()["item"].to_list() == list("abcab")


def test_given_parts_without_validation_can_have_a_share_of_what_trains(tmp_path):
    train, test = parts(tmp_path, 4, 1)
    for seed in (0, 1):
        step = Step("given", {"validation": 0.5, "seed": seed})
        (split,) = prepare(Source(train=train, test=test), (), step).splits
        assert len(split.validation) == 2 and split.test.tolist() == [4]
        assert sorted([*split.train, *split.validation]) == [0, 1, 2, 3]


def test_a_share_beside_a_given_validation_part_is_refused(tmp_path):
    train, validation, test = parts(tmp_path, 2, 1, 2)
    source = Source(train=train, validation=validation, test=test)
    with pytest.raises(OptionError, match="has validation rows already"):
        prepare(source, (), Step("given", {"validation": 0.5}))


def test_filters_leave_given_events_in_their_parts(tmp_path):
    train, test = parts(tmp_path, 3, 2)
    filters = (Step("at-least", {"threshold": 3}),)
    (split,) = prepare(Source(train=train, test=test), filters, GIVEN).splits
    assert (len(split.train), len(split.validation), len(split.test)) == (2, 0, 1)


@pytest.fixture
def rated(tmp_path):
    """Given parts where a mean of all ratings (3.625) and one of training ratings (3) disagree."""
    train = {"user": [1, 1, 2, 2], "item": list("abcd"), "rating": [2.0, 4.0, 3.0, 1.0]}
    test = {"user": [1, 1], "item": list("ef"), "rating": [3.5, 5.0]}
    paths = (written(tmp_path, "train.csv", pl.DataFrame(train)),
             written(tmp_path, "test.csv", pl.DataFrame(test)))  # fmt: skip
    return Source(train=paths[0], test=paths[1])


def items(bench):
    data, split = bench.fold(0)
    return ["".join(data.take(rows).frame()["item"]) for rows in (split.train, split.test)]


def test_filters_take_their_statistics_from_the_training_part(rated):
    bench = prepare(rated, (Step("above_mean"),), GIVEN)
    assert items(bench) == ["bc", "ef"]
    assert "".join(bench.whole().frame()["item"]) == "bcf", "without a split all is training"


def test_test_events_that_a_filter_removes_are_counted(rated):
    high = (Step("above_mean"), Step("at_least", {"threshold": 4}))
    note = "1 of 2 test events removed by above_mean and at_least, after the split"
    assert prepare(rated, high, GIVEN).removed() == note
    assert prepare(rated, (Step("above_mean"),), GIVEN).removed() == "", "all are above the mean"
    assert prepare(rated, (), GIVEN).removed() == ""


def test_statistics_of_all_events_are_those_of_before_the_split(rated):
    bench = prepare(rated, (Step("above_mean", {"statistics": "all"}),), GIVEN)
    assert items(bench) == ["bc", "f"]
    late = prepare(rated, (Step("above_mean"),), GIVEN)
    raw = prepare(rated, (), GIVEN)
    assert len({bench.fingerprint, late.fingerprint, raw.fingerprint}) == 3


def test_filters_of_each_event_alone_may_follow_one_that_needs_the_training_part(rated):
    bench = prepare(
        rated,
        (
            Step("above-mean"),
            Step("at_least", {"threshold": 4}),
        ),
        GIVEN,
    )
    assert items(bench) == ["b", "f"]


def test_other_filters_must_come_before_one_that_needs_the_training_part(rated):
    text = r"core cannot follow above_mean, .*first, or write {above_mean: {statistics: all}}"
    with pytest.raises(OptionError, match=text):
        prepare(rated, (Step("above_mean"), Step("core")), GIVEN)


def test_a_filter_that_leaves_nothing_to_test_on_is_named(rated):
    steps = (Step("above_mean"), Step("above", {"threshold": 4.5}))
    with pytest.raises(DataError, match="above_mean leaves no training or no test events"):
        prepare(rated, steps, GIVEN).fold(0)


def test_given_parts_that_a_filter_mixes_up_are_refused(tmp_path):
    train, test = parts(tmp_path, 3, 2)
    with pytest.raises(OptionError, match="merge_duplicates removes the split"):
        prepare(Source(train=train, test=test), (Step("merge_duplicates"),), GIVEN)


def test_given_files_with_other_columns_are_refused(tmp_path):
    train = written(tmp_path, "train.csv", EVENTS)
    test = written(tmp_path, "test.csv", EVENTS.drop("rating"))
    with pytest.raises(DataError, match="same columns"):
        prepare(Source(train=train, test=test), (), GIVEN)


def test_given_is_not_for_one_file(tmp_path):
    with pytest.raises(OptionError, match="train and test"):
        prepare(Source(path=written(tmp_path, "all.csv", EVENTS)), (), GIVEN)


def test_a_file_that_changed_is_read_again(tmp_path):
    source = Source(path=written(tmp_path, "all.csv", EVENTS))
    halves = Step("holdout", {"test": 0.5})
    first = prepare(source, (), halves)
    assert prepare(source, (), halves) is first
    written(tmp_path, "all.csv", EVENTS.head(4))
    second = prepare(source, (), halves)
    assert len(second.data) == 4 and second.fingerprint != first.fingerprint


@pytest.mark.parametrize(
    "filters, split, message",
    [((Step("cor"),), Step("holdout"), "Did you mean 'core'"), ((), Step("fold"), "'folds'")],
)
def test_an_unknown_step_gets_the_right_name(tmp_path, filters, split, message):
    with pytest.raises(UnknownError, match=message):
        prepare(Source(path=written(tmp_path, "all.csv", EVENTS)), filters, split)


def test_impressions_are_read_with_the_events_and_part_of_the_fingerprint(tmp_path):
    path, halves = written(tmp_path, "all.csv", EVENTS), Step("holdout", {"test": 0.4})
    shown = written(tmp_path, "shown.csv", pl.DataFrame({"user": [1, 3], "item": ["c", "c"]}))
    plain = prepare(Source(path=path), (), halves)
    source = Source(path=path, options={"impressions": shown})
    bench = prepare(source, (), halves)
    assert source_files(source) == [path, shown]
    assert bench.data.impressions.rows() == [(1, "c"), (3, "c")]
    assert bench.hashes == plain.hashes and bench.fingerprint != plain.fingerprint
    written(tmp_path, "shown.csv", pl.DataFrame({"user": [1], "item": ["c"]}))
    assert len(prepare(source, (), halves).data.impressions) == 1


def test_low_ratings_can_become_dislikes(tmp_path):
    source = Source(path=written(tmp_path, "all.csv", EVENTS))
    bench = prepare(source, (Step("dislikes", {"below": 3}),), Step("holdout", {"test": 0.4}))
    assert len(bench.data) == 3
    assert bench.data.impressions.rows() == [(1, "a"), (2, "a")]


# Where models learn is a part of their options, resolved when a run begins.


MODELS = (
    Candidate("popularity", "popularity", {}),
    Candidate("usual", "fm-pair", {"factors": 2}),
    Candidate("own", "fm-pair", {"factors": 2, "device": "torch"}),
    Candidate("any", "fm-pair", {"device": "auto"}),
)


def devices(tmp_path, where):
    asked = experiment(tmp_path, models=MODELS, run=Running(device=where))
    return [model.options.get("device") for model in with_defaults(asked, None).models]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(device, "gpu_problem", lambda: None)


def test_a_device_of_the_run_is_that_of_models_that_do_not_say_themselves(tmp_path, gpu):
    assert devices(tmp_path, "cuda") == [None, "cuda", "torch", "cuda"]


def test_the_cpu_is_not_said(tmp_path, gpu):
    assert devices(tmp_path, "cpu") == [None, None, "torch", "cuda"]


def test_auto_is_settled(tmp_path, gpu, monkeypatch):
    assert devices(tmp_path, "auto") == [None, "cuda", "torch", "cuda"]
    monkeypatch.setattr(device, "gpu_problem", lambda: "no GPU is found")
    assert devices(tmp_path, "auto") == [None, None, "torch", None]
