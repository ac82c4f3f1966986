import pytest

from fmpair.config.experiment import as_plain, from_plain
from fmpair.config.read import read
from fmpair.data import public_sets
from fmpair.errors import ConfigError

CLICKS = "user,item,hour,day\nann,maps,8,mo\nbob,mail,9,tu\n"
USERS = "user,age,day\nann,31,mo\nbob,45,we\n"
FILE = """\
data: {path: c.csv}
models:
  - popularity
  - {kind: fm-pair, name: FM, ablation: without}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.csv").write_text(CLICKS)
    (tmp_path / "u.csv").write_text(USERS)

    def write(text):
        (tmp_path / "a.yaml").write_text(text)
        return "a.yaml"

    return write


def seen(experiment):
    """Model -> the columns it is given."""
    return {m.name: (m.context, m.user_fields, m.item_fields) for m in experiment.models}


def mistakes(path, *overrides):
    with pytest.raises(ConfigError) as caught:
        read(path, overrides)
    return caught.value.mistakes


def test_a_model_is_followed_by_its_like_with_no_field_and_without_each(file):
    found = read(file(FILE))
    assert seen(found) == {
        "popularity": (None, None, None),
        "FM": (None, None, None),
        "FM with no field": ((), None, None),
        "FM without hour": (("day",), None, None),
        "FM without day": (("hour",), None, None),
    }
    [ablation] = found.ablations
    assert (ablation.model, ablation.none) == ("FM", "FM with no field")
    assert ablation.without == {"hour": "FM without hour", "day": "FM without day"}
    assert ablation.only == {}


def test_both_ways_each_field_is_tried_alone_too(file):
    found = read(file(FILE), ["models.1.ablation=both", "data.users=u.csv", "data.ignore=[day]"])
    own = {name: columns for name, columns in seen(found).items() if name.endswith("only")}
    assert own == {
        "FM with hour only": (None, (), None),  # it is all the context there is
        "FM with age only": ((), ("age",), None),
        "FM with day only": ((), ("day",), None),
    }
    assert list(found.ablations[0].only.values()) == list(own)


def test_the_whole_model_stays_what_it_was_so_that_its_results_are_reused(file):
    path = file(FILE)
    assert read(path).models[1] == read(path, ["models.1.ablation=null"]).models[1]


def test_columns_of_one_name_are_told_apart_by_whose_they_are(file):
    found = read(file(FILE), ["data.users=u.csv"])
    assert seen(found)["FM without user.day"] == (None, ("age",), None)
    assert seen(found)["FM without context.day"] == (("hour",), None, None)
    assert "FM without age" in seen(found)


def test_without_its_only_field_a_model_has_none(file):
    found = read(file(FILE), ["models.1.ablation=both", "models.1.context=[day]"])
    assert list(seen(found)) == ["popularity", "FM", "FM with no field"]
    [ablation] = found.ablations
    assert (ablation.without, ablation.only) == ({"day": "FM with no field"}, {"day": "FM"})


def test_options_about_a_column_go_with_it(file):
    text = FILE.replace("data:", "split: {kind: holdout, validation: 0.1}\ndata:").replace(
        "ablation: without",
        "ablation: both, fields: {hour: {kind: binned, bins: {search: [2, 3]}}, day: {}}, "
        "regularization: {item: 0.1, day: {search: [0.1, 0.2]}}",
    )
    models = {model.name: model for model in read(file(text)).models}
    whole, hour, none = (models[f"FM{rest}"] for rest in ("", " without day", " with no field"))
    assert set(whole.options["fields"]) == {"hour", "day"}
    assert set(whole.search) == {"fields.hour.bins", "regularization.day"}
    assert set(hour.options["fields"]) == {"hour"} and set(hour.search) == {"fields.hour.bins"}
    assert none.options == {"fields": {}, "regularization": {"item": 0.1}} and none.search == {}


def test_grids_are_multiplied_out_before_fields_are(file):
    found = read(file(FILE), ["models.1.factors={grid: [2, 4]}"])
    assert [ablation.model for ablation in found.ablations] == ["FM factors=2", "FM factors=4"]
    assert "FM factors=4 without day" in seen(found)


def test_the_baseline_may_be_any_of_them(file):
    found = read(file(FILE), ["compare.baseline=FM with no field"])
    assert found.compare.baseline == "FM with no field"
    [line] = mistakes("a.yaml", "compare.baseline=FM without our")
    assert "Did you mean 'FM without hour'?" in line


def test_an_experiment_with_ablations_is_the_same_after_a_round_trip(file):
    found = read(file(FILE))
    assert from_plain(as_plain(found)) == found
    before = {k: v for k, v in as_plain(found).items() if k != "ablations"}
    assert from_plain(before).ablations == ()


@pytest.mark.parametrize(
    "changes, line",
    [
        (["models.1.ablation=true"],
         "command line: models.1.ablation: must be one of without, both or null, not true"),
        (["models.1.context=[]"],
         "command line, models.1.context=[]: models.1.ablation: nothing to leave out: the model "
         "uses no context and no user or item attributes"),
        (["models.0={kind: popularity, name: FM without day}"],
         "command line, models.0={kind: popularity, name: FM without day}: models.1: there is a "
         "model 'FM without day' already: give this one another name"),
        (["data.path=u.csv"],
         "command line, data.path=u.csv: data: no item column found"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_override_and_nothing_else_is(file, changes, line):
    [found] = mistakes(file(FILE + "compare: {baseline: FM with no field}\n"), *changes)
    assert found.startswith(line)


def test_data_that_are_not_at_hand_are_asked_for(file, monkeypatch):
    monkeypatch.setattr(public_sets, "held", lambda name: None)
    [line] = mistakes(file(FILE.replace("path: c.csv", "set: ml-1m")))
    asked = "an ablation needs the data on this machine: fmpair data fetch ml-1m"
    assert line == f"a.yaml:1: data: {asked}"


def test_other_mistakes_are_told_before_the_data_are_looked_at(file):
    [line] = mistakes(file(FILE), "data.path=d.csv", "compare.baseline=FM without day")
    assert "there is no file" in line


def test_of_a_model_of_order_three_every_pair_of_fields_is_left_out_too(file):
    found = read(file(FILE), ["models.1.order=3"])
    own = {m.name: dict(m.options) for m in found.models if " x " in m.name}
    left = [["user", "hour"], ["user", "day"]]
    assert own["FM without hour x day"] == {"order": 3, "pairs": left}
    couples = ("user x hour", "user x day", "hour x day")
    assert set(own) == {f"FM without {couple}" for couple in couples}
    assert found.ablations[0].without["user x day"] == "FM without user x day"


def test_pairs_of_a_column_go_with_it(file):
    found = read(file(FILE), ["models.1.order=3", "models.1.pairs=[[user, hour]]"])
    own = {m.name: dict(m.options) for m in found.models}
    assert own["FM without hour"] == {}
    assert own["FM without day"] == {"order": 3, "pairs": [["user", "hour"]]}
    assert own["FM without user x hour"] == {}
