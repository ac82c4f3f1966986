"""Models of an experiment file: code from outside needs permission, `tune` has a budget."""

import json

import pytest

from fmpair.config import model_section, read
from fmpair.config.experiment import Candidate, Experiment, Source, Step, as_plain, from_plain
from fmpair.config.model_section import TUNED_BY_DEFAULT, default_ranges
from fmpair.errors import ConfigError, OptionError
from fmpair.models.catalog import find
from fmpair.training.search import Budget, Range


def experiment(kind, **more):
    return Experiment("a", Source(), (Candidate("a", kind),), Step("holdout"), **more)


def test_a_model_of_the_catalogue_is_not_foreign_by_name_or_by_class():
    assert not model_section.is_foreign("fm-pair")
    assert not model_section.is_foreign("fmpair.models.fm_pair.fm_pair:FMPair")
    assert model_section.is_foreign("fmpair.models.fm_pair:dataclass")
    assert model_section.is_foreign("os:system")


def test_code_runs_when_the_caller_allows_it_and_not_otherwise():
    model_section.check_code(experiment("popularity"))
    model_section.check_code(experiment("mine:Model", allow_code=True))
    with pytest.raises(OptionError, match=r"--allow-code .* allow_code=True .*ALLOW_CODE=mine"):
        model_section.check_code(experiment("mine:Model"))


def test_the_environment_trusts_modules_and_what_is_in_them(monkeypatch):
    monkeypatch.setenv(model_section.VARIABLE, "mine, firm.models")
    for kind in ("mine:Model", "mine.deep:Model", "firm.models:Model", "firm.models.new:Model"):
        assert model_section.is_trusted(kind)
    for kind in ("minefield:Model", "firm:Model", "firm.other:Model", ":Model", "os:system"):
        assert not model_section.is_trusted(kind)
    model_section.check_code(experiment("mine:Model"))


@pytest.mark.parametrize("value", ["", ",", " , ."])
def test_an_empty_variable_trusts_nothing(monkeypatch, value):
    monkeypatch.setenv(model_section.VARIABLE, value)
    assert not model_section.is_trusted("mine:Model") and not model_section.is_trusted(":Model")


@pytest.fixture
def file(tmp_path):
    def write(text):
        (tmp_path / "a.yaml").write_text(text)
        return tmp_path / "a.yaml"

    return write


def models_of(file, entries, more="split: {kind: holdout, validation: 0.1}\n"):
    return read(file(f"data: {{generate: {{users: 9}}}}\n{more}models: [{entries}]\n")).models


def mistakes_of(file, entries, **options):
    with pytest.raises(ConfigError) as raised:
        models_of(file, entries, **options)
    return [line.partition("models.")[2] for line in raised.value.mistakes]


def test_a_model_is_tuned_for_a_time_or_a_number_of_trials(file):
    [one] = models_of(file, "{kind: fm-pair, tune: 5m}")
    [other] = models_of(file, "{kind: item-knn, tune: {trials: 40}}")
    assert one.tune == Budget(seconds=300.0) and other.tune == Budget(trials=40)
    assert one.tuned and not one.search and one.options == {}


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ("5 parsecs", "0.tune: tune must be a time such as 90s, 5m or 2h, not '5 parsecs'"),
        ("{tries: 3}", "0.tune: must be a time such as 5m, or {trials: 40}, not {'tries': 3}"),
        ("40", "0.tune: must be a time such as 5m, or {trials: 40}, not 40"),
        ("true", "0.tune: must be a time such as 5m, or {trials: 40}, not true"),
        (
            "{trials: 4.5}",
            "0.tune: must be a time such as 5m, or {trials: 40}, not {'trials': 4.5}",
        ),
        ("{trials: 0}", "0.tune: trials must be a whole number of at least 1, not 0"),
    ],
)
def test_a_wrong_budget_is_a_mistake(file, tune, said):
    assert mistakes_of(file, f"{{kind: fm-pair, tune: {tune}}}") == [said]


def test_budgets_must_be_equal(file):
    different = "{kind: fm-pair, tune: 5m}, {kind: item-knn, tune: {trials: 40}}"
    assert mistakes_of(file, different) == [
        "1: tuned models must have the same budget, not 5 min and 40 trials: give all of them the "
        "same tune"
    ]
    searched = "{kind: fm-pair, tune: {trials: 9}}, {kind: item-knn, k: {search: [5, 9]}}"
    assert "not 9 trials and 20 trials" in mistakes_of(file, searched)[0]
    equal = "{kind: fm-pair, tune: {trials: 20}}, {kind: item-knn, k: {search: [5, 9]}}, popularity"
    assert len(models_of(file, equal)) == 3


def test_a_model_with_nothing_to_tune_is_a_mistake(file):
    assert mistakes_of(file, "{kind: most-recent, tune: 5m}") == [
        "0.tune: the model has no option that is tuned by default: give some as {search: ...}"
    ]
    right = "give some as settings: {NAME: {search: [16, 64]}}"
    assert right in mistakes_of(file, "{kind: implicit, tune: 5m}")[-1]


def test_tuning_needs_a_validation_set(file):
    [line] = mistakes_of(file, "{kind: fm-pair, tune: 5m}", more="")
    assert line.startswith("0.tune: fm-pair is tuned or stops early: give the split a validation")


def test_a_tuned_model_is_read_back_from_a_run_folder(file):
    experiment = read(file(
        "data: {generate: {users: 9}}\nsplit: {kind: holdout, validation: 0.1}\n"
        "models: [{kind: fm-pair, tune: 5m}]\n"
    ))  # fmt: skip
    assert from_plain(json.loads(json.dumps(as_plain(experiment)))).models == experiment.models


def test_numbers_are_tuned_around_their_defaults_unless_they_are_given():
    assert default_ranges(find("item-knn"), {}) == {
        "k": Range(low=10, high=1000, log=True), "shrinkage": Range(low=1.0, high=100.0, log=True)
    }  # fmt: skip
    assert set(default_ranges(find("item-knn"), {"k": 7})) == {"shrinkage"}
    assert set(default_ranges(find("bpr-mf"), {})) == {"factors", "regularization", "learning_rate"}
    assert default_ranges(find("pure-svd"), {}) == {"factors": Range((10, 20, 40, 80))}
    assert set(default_ranges(find("ease"), {})) == {"regularization"} <= set(TUNED_BY_DEFAULT)
