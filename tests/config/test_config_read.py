import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_type_hints

import polars as pl
import pytest

from fmpair import config
from fmpair.config import option_schema
from fmpair.config.data_columns import missing_columns
from fmpair.config.experiment import Candidate, Source, Step, as_plain, from_plain
from fmpair.config.read import validate
from fmpair.data import Dataset
from fmpair.errors import ConfigError, OptionError
from fmpair.evaluation import Protocol
from fmpair.evaluation.protocol import PRESETS
from fmpair.experiment.plan import with_options
from fmpair.training.search import Range

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SMALL = """\
data: {generate: {users: 20, items: 10, events: 200}}
models: [popularity, {kind: fm-pair, factors: 4}]
"""


@dataclass(frozen=True)
class Needy:
    """A model of another package."""

    size: int
    share: float = 0.5

    def __post_init__(self):
        if self.size < 1:
            raise OptionError(f"size must be 1 or more, not {self.size}")

    def fit(self, data):
        return None

    def require(self):
        raise OptionError("needy is not installed: pip install needy")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="a.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write


def missing(experiment):
    """The columns that an experiment names and its data lack, a line each."""
    return [f"{'.'.join(map(str, key))}: {text}" for key, text in missing_columns(experiment)]


def mistakes(path, *overrides, check=config.read):
    with pytest.raises(ConfigError) as caught:
        check(path, overrides)
    return str(caught.value).splitlines()


allowed = partial(config.read, allow_code=True)


def test_a_short_file_gets_every_default(file, tmp_path):
    found = config.read(file(SMALL))
    assert found.name == "a"
    assert found.data == Source(generate={"users": 20, "items": 10, "events": 200})
    assert found.models == (
        Candidate("popularity", "popularity"),
        Candidate("fm-pair", "fm-pair", {"factors": 4}),
    )
    assert found.split == Step("holdout")
    assert found.protocols == {}  # the data will choose one
    assert found.output.folder == str(tmp_path / "runs" / "a")


WRONG = """\
nam: x
data: {generate: {users: 300, itms: 200}}
filter:
  - above_men
  - core: {user: 5}
split: {kind: leave-last-out, count: many}
models:
  - popularty
  - kind: fm-pair
    epoch: 3
    factors: {grid: [16, -1]}
    learning_rate: fast
    stop: 0
  - kind: fm-pair
    name: tuned
    learning_rate: {search: {low: 0, high: 0.3}}
    factors: {search: {low: 9, high: 8}}
    fields: {age: {kind: bined}}
  - popularity
  - popularity
protocols:
  a: {unit: usr}
  b: ful
metrics: [ndgc@10, recall, rmse@3]
views: [popularty]
seeds: [0, 1.5]
tune: {trials: 0}
compare:
  baseline: popularit
  test: chi
  level: 2
run: {workers: two}
"""
EXPECTED = """\
a.yaml:1: nam: unknown section 'nam'. Did you mean 'name'? Known: name, extends, data, filter, \
split, models, protocols, metrics, views, seeds, tune, compare, ... (14 in all)
a.yaml:2: data.generate.itms: unknown option 'itms'. Did you mean 'items'? Known: users, items, \
events, seed
a.yaml:4: filter.0: unknown filter 'above_men'. Did you mean 'above_mean'? Known: {filters}
a.yaml:5: filter.1.core.user: unknown option 'user'. Did you mean 'users'? Known: users, items
a.yaml:6: split.count: must be a whole number, not 'many'
a.yaml:8: models.0.kind: unknown model 'popularty'. Did you mean 'popularity'? Known: {models}
a.yaml:10: models.1.epoch: unknown option 'epoch'. Did you mean 'epochs'? Known: {options}
a.yaml:11: models.1.factors: factors must be a whole number of at least 1, not -1
a.yaml:12: models.1.learning_rate: must be a number, not 'fast'
a.yaml:13: models.1.stop: stop must be a whole number of at least 1, not 0
a.yaml:13: models.1.stop: fm-pair factors=16 is tuned or stops early: give the split a \
validation set, as validation: 0.1, or validation: 1 with leave_last_out and leave_out
a.yaml:13: models.1.stop: fm-pair factors=-1 is tuned or stops early: give the split a \
validation set, as validation: 0.1, or validation: 1 with leave_last_out and leave_out
a.yaml:16: models.2.learning_rate: learning_rate must be a number above 0, not 0
a.yaml:16: models.2.learning_rate: tuned is tuned or stops early: give the split a validation \
set, as validation: 0.1, or validation: 1 with leave_last_out and leave_out
a.yaml:17: models.2.factors: search: low (9) must be below high (8)
a.yaml:18: models.2.fields.age: kind must be one of auto, categorical, multi, boolean, numeric, \
binned, weighted, time, vector, history, not 'bined'. Did you mean 'binned'?
a.yaml:20: models.4: there is a model 'popularity' already: give this one another name
a.yaml:22: protocols.a.unit: unit must be one of interaction, user, user-context, not 'usr'. \
Did you mean 'user'?
a.yaml:23: protocols.b: unknown protocol 'ful'. Did you mean 'full'? Known: {presets}
a.yaml:24: metrics.0: unknown metric 'ndgc'. Did you mean 'ndcg'? Known: {metrics}
a.yaml:24: metrics.1: metric 'recall' needs a cut-off, such as recall@10
a.yaml:24: metrics.2: metric 'rmse@3' takes no cut-off: write rmse
a.yaml:25: views.0: unknown view 'popularty'. Did you mean 'popularity'? Known: popularity, \
activity, warmth, events, context:COLUMN
a.yaml:26: seeds.1: a seed must be a whole number of at least 0, not 1.5
a.yaml:27: tune.trials: trials must be a whole number of at least 1, not 0
a.yaml:29: compare.baseline: unknown model 'popularit'. Did you mean 'popularity'? Known: \
popularty, fm-pair factors=16, fm-pair factors=-1, tuned, popularity
a.yaml:30: compare.test: test must be one of randomisation, t, wilcoxon, not 'chi'
a.yaml:31: compare.level: must be between 0 and 1, not 2
a.yaml:32: run.workers: must be a whole number, not 'two'
command line: output.foldr: unknown option 'foldr'. Did you mean 'folder'? Known: folder, models, \
refit
"""


def test_all_mistakes_are_reported_together_each_with_its_line(file):
    from fmpair.errors import listing
    from fmpair.metrics import NAMES
    from fmpair.models import FMPair
    from fmpair.models.catalog import MODELS

    own = {**option_schema.options_of(FMPair).known, **option_schema.model_keys().known}
    known = {"filters": option_schema.filters(), "models": MODELS, "options": own,
             "presets": PRESETS, "metrics": NAMES}  # fmt: skip
    expected = EXPECTED.format(**{name: listing(names) for name, names in known.items()})
    assert mistakes(file(WRONG), "output.foldr=x") == expected.splitlines()


def test_an_empty_file_says_what_is_missing(file):
    assert mistakes(file("name: x\n")) == [
        "a.yaml:1: section 'data' is missing",
        "a.yaml:1: section 'models' is missing",
    ]
    assert mistakes(file("- x\n")) == ["a.yaml:1: must be a mapping, not ['x']"]


def test_mistakes_of_a_base_name_the_base(file):
    file(SMALL + "seeds: [x]\n", "base.yaml")
    assert mistakes(file("extends: base.yaml\nruns: {}\n")) == [
        "a.yaml:2: runs: unknown section 'runs'. Did you mean 'run'? Known: name, extends, data, "
        "filter, split, models, protocols, metrics, views, seeds, tune, compare, ... (14 in all)",
        "base.yaml:3: seeds.0: a seed must be a whole number of at least 0, not 'x'",
    ]


def test_grids_are_multiplied_out_in_order(file):
    text = (
        SMALL.splitlines()[0]
        + """
models:
  - kind: fm-pair
    name: FM
    factors: {grid: [16, 64]}
    regularization: {user: {grid: [0.1, 0.2]}}
  - kind: fm-pair
    context: {grid: [[], [daytime]]}
"""
    )
    found = config.read(file(text)).models
    assert [model.name for model in found] == [
        "FM factors=16 regularization.user=0.1", "FM factors=16 regularization.user=0.2",
        "FM factors=64 regularization.user=0.1", "FM factors=64 regularization.user=0.2",
        "fm-pair context=none", "fm-pair context=daytime",
    ]  # fmt: skip
    assert found[1].options == {"factors": 16, "regularization": {"user": 0.2}}
    assert [model.context for model in found[4:]] == [(), ("daytime",)]


def test_what_is_searched_becomes_a_range_and_no_option(file):
    text = (
        SMALL.splitlines()[0]
        + """
split: {kind: holdout, validation: 0.1}
models:
  - kind: fm-pair
    factors: {search: [8, 16]}
    learning_rate: {search: {low: 0.01, high: 0.3, log: true}}
    epochs: 3
"""
    )
    [model] = config.read(file(text)).models
    assert model.options == {"epochs": 3}
    assert model.search == {
        "factors": Range(values=(8, 16)), "learning_rate": Range(low=0.01, high=0.3, log=True),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("{low: 0.5, high: 8}", "search: must be a whole number or null, not 0.5"),
        ("{low: 0, high: 8}", "factors must be a whole number of at least 1, not 0"),
        ("{low: 0, high: 8, log: true}", "search: low must be above 0 where log is true, not 0"),
        ("{low: 1}", "search needs both low and high"),
        ("[8, -1]", "factors must be a whole number of at least 1, not -1"),
        ("[]", "search needs at least one value"),
        ("3", "search takes a list of values, or {low: ..., high: ..., log: true}"),
    ],
)
def test_a_range_that_the_recipe_refuses_is_a_mistake(file, search, said):
    text = f"{SMALL.splitlines()[0]}\nsplit: {{kind: holdout, validation: 0.1}}\n"
    text += f"models: [{{kind: fm-pair, factors: {{search: {search}}}}}]\n"
    assert mistakes(file(text)) == [f"a.yaml:3: models.0.factors: {said}"]


def test_steps_may_be_written_in_three_ways(file):
    ways = "filter: [all-positive, {kind: core, users: 2}, {core: {items: 3}}]\n"
    found = config.read(file(SMALL + ways))
    assert found.filters == (
        Step("all_positive"), Step("core", {"users": 2}), Step("core", {"items": 3}),
    )  # fmt: skip
    assert mistakes(file(SMALL + "filter: [above]\n")) == [
        "a.yaml:3: filter.0: threshold must be given"
    ]


def test_protocols_are_labelled_by_key_preset_or_id(file):
    found = config.read(file(SMALL + "protocols: [full, {unit: user, n: 5}]\n"))
    assert list(found.protocols) == ["full", Protocol(unit="user").id]
    found = config.read(file(SMALL + "protocols: {mine: {kind: full, unit: user}}\n"))
    assert found.protocols["mine"].unit == "user"


def test_items_to_rank_may_stand_in_a_file(file):
    file("item_id\nfilm-001\nfilm-002\n", "items.csv")
    text = SMALL + "protocols: {mine: {candidates: file, items: items.csv}}\n"
    found = config.read(file(text)).protocols["mine"]
    assert found.listed["item"].to_list() == ["film-001", "film-002"]
    assert mistakes(file(text), "protocols.mine.items=no.csv")[0].startswith(
        "command line: protocols.mine.items: there is no file"
    )


def test_a_metric_that_no_protocol_can_judge_is_a_mistake(file):
    text = SMALL + "metrics: [ndcg@10, rmse, coverage@5]\nprotocols: {u: {unit: user}}\n"
    assert mistakes(file(text)) == [
        "a.yaml:3: metrics.1: rmse needs a protocol with unit: interaction"
    ]
    sampled = "protocols.u={candidates: uniform}"
    assert mistakes(file(text), sampled) == [
        "command line, protocols.u={candidates: uniform}: metrics.2: coverage@5 needs a protocol "
        "with candidates: all or train"
    ]


def test_the_metric_of_the_comparison_must_be_measured(file):
    assert mistakes(file(SMALL + "compare: {metric: ndcg@5}\n")) == [
        "a.yaml:3: compare.metric: unknown metric 'ndcg@5'. Did you mean 'ndcg@10'? Known: "
        "recall@10, ndcg@10"
    ]


def test_given_parts_are_used_as_they_are(file, tmp_path):
    for name in ("train.csv", "test.csv"):
        file("user,item\na,x\nb,y\n", name)
    text = "data: {train: train.csv, test: test.csv}\nmodels: [popularity]\n"
    found = config.read(file(text))
    assert found.split == Step("given")
    assert found.data.train == str(tmp_path / "train.csv")
    assert mistakes(file(text), "split=folds") == [
        "command line: split: the data are already split: use given, not folds"
    ]
    assert mistakes(file(SMALL), "split=given") == [
        "command line: split: 'given' needs data with a split: train and test, or a public set "
        "that has one"
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{}", "data: must have exactly one of path, set, generate, train and test"),
        ("{set: ml-100k, path: x}", "data: must have exactly one of path, set, generate, train"),
        ("{train: c.csv}", "data: needs both train and test"),
        ("{set: ml-100}", "data.set: unknown data set 'ml-100'. Did you mean 'ml-100k'?"),
        ("{path: cs.csv}", "data.path: there is no file {here}/cs.csv. Did you mean 'c.csv'?"),
        ("{path: c.csv, usr: x}", "data.usr: unknown option 'usr'. Did you mean 'user'?"),
        ("{path: c.csv, context: daytime}", "data.context: must be a list of text or null"),
        ("{path: c.csv, format: cvs}", "data.format: unknown format 'cvs'. Did you mean 'csv'?"),
        ("{path: c.csv, users: u.csv}", "data.users: there is no file {here}/u.csv"),
        ("{path: c.csv, impressions: s.csv}", "data.impressions: there is no file {here}/s.csv"),
        ("{generate: {users: 3}, user: x}", "data.user: unknown option 'user'. Known: generate"),
    ],
)
def test_what_is_wrong_with_the_data_is_said(file, tmp_path, data, said):
    file("user,item\na,x\n", "c.csv")
    [found] = mistakes(file(f"models: [popularity]\ndata: {data}\n"))
    assert found.startswith("a.yaml:2: " + said.replace("{here}", str(tmp_path)))


def test_one_value_where_a_list_is_due_is_shown_as_a_list(file):
    assert mistakes(file(SMALL + "seeds: 3\nmetrics: ndcg@10\n")) == [
        "a.yaml:3: seeds: must be a list, such as [3], not 3",
        "a.yaml:4: metrics: must be a list, such as [ndcg@10], not 'ndcg@10'",
    ]


def test_foreign_models_are_checked_like_our_own(file):
    kind = f"{__name__}:Needy"
    text = f"{SMALL.splitlines()[0]}\nmodels:\n  - {{kind: '{kind}', size: 3}}\n"
    assert mistakes(file(text), check=allowed) == [
        "a.yaml:3: models.0.kind: needy is not installed: pip install needy"
    ]
    assert mistakes(file(text), "models.0.size=0", check=allowed) == [
        "command line: models.0.size: size must be 1 or more, not 0"
    ]
    assert mistakes(file(text), "models.0={kind: '" + kind + "'}", check=allowed) == [
        "command line: models.0: size must be given"
    ]
    for wrong in ("json:dumps", "no.such:Thing"):
        [found] = mistakes(file(text), f"models.0='{wrong}'", check=allowed)
        assert found.startswith("command line: models.0.kind: ")


def test_stop_is_for_models_that_learn_by_epochs(file):
    text = SMALL + "split: {kind: holdout, validation: 0.1}\n"
    assert mistakes(file(text), "models.0.stop=3") == [
        "command line: models.0.stop: popularity does not support early stopping: remove stop"
    ]
    assert mistakes(file(text), "models.0={kind: fm, stop: 3}") == [
        "command line: models.0.stop: fm does not support early stopping: remove stop"
    ]


def test_options_of_splits_and_filters_are_tried_before_there_are_data(file):
    path = file(SMALL)
    for given, wrong in (
        ("split={kind: holdout, test: 1.5}", "split.test: test (1.5) must be between 0 and 1"),
        ("split={kind: folds, count: 1}", "split.count: count must be from 2"),
        ("split={kind: by_time, after: soon}", "split: 'soon' is not a time"),
        ("filter=[{core: {users: 0}}]", "filter.0.core.users: users and items must be at least 1"),
    ):
        [found] = mistakes(path, given)
        assert found.startswith(f"command line: {wrong}")


def test_a_class_beside_the_file_is_found_and_may_raise_anything(file):
    path = file(SMALL)
    Path(path).with_name("own_model_beside.py").write_text(
        "class Model:\n"
        "    def __init__(self, size=1):\n"
        "        {}[size]\n"
        "    def fit(self, data):\n"
        "        pass\n"
    )
    own = "models.0={kind: 'own_model_beside:Model'}"
    assert mistakes(path, own, check=allowed) == ["command line: models.0: KeyError: 1"]


FULL = """\
data: {path: c.csv, context: [daytime]}
filter: [{core: {users: 1, items: 1}}]
split: {kind: folds, count: 3, validation: 0.2}
models:
  - popularity
  - {kind: fm-pair, factors: {grid: [2, 4]}, learning_rate: {search: {low: 0.1, high: 0.2}},
     context: [], stop: 2, fields: {daytime: {kind: categorical}}}
protocols:
  listed: {candidates: file, items: [x, y]}
  from a file: {candidates: file, items: i.csv}
seeds: [3, 4]
run: {threads: 2}
"""


def test_plain_values_make_the_same_experiment_without_the_file(file):
    file("user,item,daytime\na,x,am\n", "c.csv")
    file("user,item\na,x\n", "i.csv")
    found = config.read(file(FULL))
    plain = json.loads(json.dumps(as_plain(found)))
    for name in ("a.yaml", "c.csv", "i.csv"):
        os.remove(name)
    back = from_plain(plain)
    assert back == found
    assert isinstance(back.protocols["from a file"].items, pl.DataFrame)


def test_a_search_may_stand_inside_an_option(file):
    text = """
data: {generate: {users: 20, items: 20, events: 200}}
split: {kind: holdout, validation: 0.1}
models:
  - kind: fm-pair
    regularization: {user: {search: {low: 0.001, high: 0.1, log: true}}, item: 0.01}
"""
    [model] = config.read(file(text)).models
    assert model.options == {"regularization": {"item": 0.01}}
    assert model.search == {"regularization.user": Range(low=0.001, high=0.1, log=True)}
    chosen = with_options(model, {"regularization.user": 0.02})
    assert chosen.options == {"regularization": {"item": 0.01, "user": 0.02}}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_read_or_names_what_is_to_be_installed(path):
    try:
        assert config.read(path).models
    except ConfigError as error:
        assert all("pip install 'fmpair[" in mistake for mistake in error.mistakes)


CLICKS = "uid,app,hour,day\nann,maps,8,mo\nbob,mail,9,tu\n"


@pytest.mark.parametrize("split", ["by-time", "leave-last-out"])
def test_the_order_of_rows_serves_where_times_are_needed(split, file):
    file(CLICKS, "c.csv")
    data = "{path: c.csv, user: uid, item: app, order: rows}"
    read = validate(file(f"data: {data}\nsplit: {split}\nmodels: [popularity]\n"))
    assert (read.data.options["order"], read.split.kind) == ("rows", split.replace("-", "_"))


def test_columns_that_are_not_there_are_named_with_the_nearest(file):
    file(CLICKS, "c.csv")
    text = """\
data: {path: c.csv, user: uid, item: app, context: [hour, day]}
filter: [above_mean]
split: by-time
models:
  - popularity
  - {kind: fm-pair, context: [hours], user_fields: [age], fields: {dai: {}}}
protocols: {graded: {gain: rating}}
metrics: [ndcg@10, rmse]
views: [context:dya]
"""
    assert mistakes(file(text), check=validate) == [
        "a.yaml:2: filter.0: above_mean needs a rating: name its column with data.rating",
        "a.yaml:3: split: by_time needs a timestamp: name its column with data.timestamp",
        "a.yaml:6: models.1.context: unknown context column 'hours'. Did you mean 'hour'? "
        "Known: hour, day",
        "a.yaml:6: models.1.user_fields: unknown user attribute 'age'. Known: none",
        "a.yaml:6: models.1.fields: unknown column 'dai'. Did you mean 'day'? Known: hour, day",
        "a.yaml:7: protocols.graded.gain: unknown column 'rating'. Known: hour, day",
        "a.yaml:8: metrics.1: rmse needs a rating: name its column with data.rating",
        "a.yaml:9: views.0: unknown column 'dya'. Did you mean 'day'? Known: hour, day",
    ]


def test_wrong_options_and_missing_columns_are_reported_together_at_their_places(file):
    file(CLICKS, "c.csv")
    text = """\
data: {path: c.csv, user: uid, item: app}
filter: [{at_lest: {count: 2}}, {leaked: {}}, above_mean]
split: {kind: by-attribute}
models:
  - popularity
  - {kind: fm-pair, factors: many, context: [hours]}
metrics: [ndgc@10, ndcg@10, rmse]
views: [3, popularty, context:dya]
"""
    found = mistakes(file(text), check=validate)
    assert [line.partition(": ")[2].partition(": ")[0] for line in found] == [
        *("filter.0.at_lest", "filter.1.leaked", "filter.2", "split", "models.1.factors"),
        *("models.1.context", "metrics.0", "metrics.2", "views.0", "views.1", "views.2"),
    ]
    assert "a.yaml:8: views.2: unknown column 'dya'. Did you mean 'day'? Known: hour, day" in found
    # with a mistake in the section `data`, columns are not known
    text = text.replace("user: uid", "usr: uid")
    assert not [line for line in mistakes(file(text), check=validate) if "unknown column" in line]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("foo.bar=3", "foo: unknown section 'foo'."),
        ("models.1.kind=ease", "models.1.factors: unknown option 'factors'."),
        ("models=[ease]", "compare.baseline: unknown model 'popularity'."),
        ("data.set=ml-100k", "data: must have exactly one of"),
        ("models.1.name=popularity", "models.1: there is a model 'popularity' already"),
    ],
)
def test_what_an_override_breaks_elsewhere_is_blamed_on_it_as_typed(file, override, said):
    [found] = mistakes(file(SMALL + "compare: {baseline: popularity}\n"), "seeds=[1]", override)
    blamed = override if override != "models=[ease]" else f"seeds=[1] {override}"
    assert found.startswith(f"command line, {blamed}: {said}")


def test_a_mistake_of_the_file_is_not_blamed_on_an_override(file):
    text = SMALL.replace("factors: 4", "factors: many")
    assert mistakes(file(text), "models.1.epochs=none") == [
        "a.yaml:2: models.1.factors: must be a whole number or null, not 'many'",
        "command line: models.1.epochs: must be a whole number, not 'none'",
    ]


def test_fields_may_be_named_with_their_side_or_be_the_source_of_a_domain(file):
    file("user,item,hour,domain\na,x,1,books\na,y,2,songs\n", "c.csv")
    text = """\
data: {path: c.csv, domain: domain, context: [hour]}
models:
  - {kind: fm-pair, fields: {context.hour: {scale: 2}, user.hour: {}}}
  - {kind: fm-pair-cd, target: books, fields: {source_songs: {start: 0.1}}}
"""
    assert mistakes(file(text), check=validate) == [
        "a.yaml:3: models.0.fields: unknown column 'user.hour'. Did you mean 'hour'? Known: hour"
    ]


def test_the_columns_of_the_data_section_are_looked_up_first(file):
    file(CLICKS, "c.csv")
    text = "data: {path: c.csv, user: uidd, item: app, ignore: [dy]}\nmodels: [popularity]\n"
    assert mistakes(file(text), check=validate) == [
        "a.yaml:1: data.user: unknown column 'uidd'. Did you mean 'uid'? Known: uid, app, hour, "
        "day",
        "a.yaml:1: data.ignore: unknown column 'dy'. Did you mean 'day'? Known: uid, app, hour, "
        "day",
    ]
    text = "data: {path: c.csv}\nmodels: [popularity]\n"
    [found] = mistakes(file(text), check=validate)
    assert found.startswith("a.yaml:1: data: no item column found")


def test_columns_are_found_in_generated_data_tables_and_parquet(file):
    text = SMALL.replace(
        "factors: 4", "context: [daytime], user_fields: [age], item_fields: [tags]"
    )
    assert missing(config.read(file(text))) == []
    pl.DataFrame({"user": ["a"], "item": ["x"], "hour": [1]}).write_parquet("c.parquet")
    file("user,age\na,3\n", "u.csv")
    text = """\
data: {path: c.parquet, users: u.csv, item_columns: [hour]}
models: [{kind: fm-pair, user_fields: [age], item_fields: [hour], context: [hour]}]
"""
    assert missing(config.read(file(text))) == [
        "models.fm-pair.context: unknown context column 'hour'. Known: none"
    ]


def test_a_grid_of_millions_of_models_is_refused_before_it_is_multiplied_out(file):
    grid = "{grid: [" + ", ".join(str(n) for n in range(1, 41)) + "]}"
    names = ("factors", "epochs", "n_negatives", "seed", "threads")
    text = f"{SMALL.splitlines()[0]}\nmodels:\n  - kind: fm-pair\n"
    text += "".join(f"    {name}: {grid}\n" for name in names)
    assert mistakes(file(text)) == [
        "a.yaml:3: models.0: the grids make 102,400,000 models, the limit is 1,000: leave options "
        "to tuning with {search: [...]}"
    ]


def test_entries_that_make_too_many_models_together_are_refused(file):
    grid = "{grid: [" + ", ".join(str(n) for n in range(1, 401)) + "]}"
    entries = "".join(f"  - {{kind: item-knn, name: m{n}, k: {grid}}}\n" for n in range(3))
    [found] = mistakes(file(f"{SMALL.splitlines()[0]}\nmodels:\n{entries}"))
    assert found == "a.yaml:2: models: more than 1,000 models, the limit of an experiment"


def test_fits_without_end_are_refused(file):
    seeds = list(range(15_000))
    path = file(SMALL + "split: {kind: folds, count: 5}\n")
    assert mistakes(path, f"seeds={seeds}") == [
        f"command line, {f'seeds={seeds}'[:60]} ...: 2 models, 5 folds and 15,000 seeds make "
        "150,000 fits, the limit is 100,000"
    ]
    assert mistakes(path, "run.workers=100000", "tune.trials=1000000000") == [
        "command line: tune.trials: must be at most 100,000, not 1,000,000,000",
        "command line: run.workers: must be at most 256, not 100,000",
    ]


def test_generated_data_that_do_not_fit_are_refused(file):
    [found] = mistakes(file("data: {generate: {users: 1000000000000}}\nmodels: [random]\n"))
    assert found.startswith("a.yaml:1: data.generate: generated data needs")


def test_thousands_of_mistakes_end_with_the_hundredth(file):
    path = file(SMALL + "".join(f"section{n}: 1\n" for n in range(5000)))
    found = mistakes(path)
    assert len(found) == 101 and found[-1] == "100 mistakes: reading stops here"


STRANGER = "raise SystemExit('this ran')\n"


def test_a_file_does_not_run_code_that_lies_beside_it(file, tmp_path, monkeypatch):
    file(STRANGER, "stranger_beside.py")
    path = file(f"{SMALL.splitlines()[0]}\nmodels: ['stranger_beside:Model']\n")
    before = list(sys.path)
    [found] = mistakes(path)
    assert found.startswith("a.yaml:2: models.0.kind: 'stranger_beside:Model' is code from outside")
    assert "--allow-code" in found and "allow_code=True" in found
    assert sys.path == before and "stranger_beside" not in sys.modules


def test_a_trusted_name_is_not_looked_for_beside_the_file(file, monkeypatch):
    file(STRANGER, "stranger_beside.py")
    monkeypatch.setenv("FMPAIR_ALLOW_CODE", "stranger_beside")
    [found] = mistakes(file(f"{SMALL.splitlines()[0]}\nmodels: ['stranger_beside:Model']\n"))
    assert found.endswith("No module named 'stranger_beside'")


def test_a_trusted_module_needs_no_further_word(file, monkeypatch):
    monkeypatch.setenv("FMPAIR_ALLOW_CODE", __name__)
    text = f"{SMALL.splitlines()[0]}\nmodels: [{{kind: '{__name__}:Needy', size: 0}}]\n"
    assert mistakes(file(text)) == ["a.yaml:2: models.0.size: size must be 1 or more, not 0"]


def test_validate_never_imports_code_from_outside(file, monkeypatch):
    file(STRANGER, "stranger_beside.py")
    monkeypatch.setenv("FMPAIR_ALLOW_CODE", "stranger_beside")
    path = file(f"{SMALL.splitlines()[0]}\nmodels: [{{kind: 'stranger_beside:Model', a: 1}}]\n")
    [model] = validate(path).models
    assert (model.kind, model.options) == ("stranger_beside:Model", {"a": 1})
    assert "stranger_beside" not in sys.modules


def test_what_is_allowed_is_not_written_down(file):
    experiment = allowed(file(SMALL))
    assert experiment.allow_code and "allow_code" not in as_plain(experiment)
    assert from_plain(as_plain(experiment)).allow_code is False
    assert mistakes(file(SMALL + "allow_code: true\n"))[0].startswith(
        "a.yaml:3: allow_code: unknown section"
    )


def test_a_path_longer_than_the_system_allows_is_a_mistake_at_its_line(file):
    [found] = mistakes(file(f"models: [popularity]\ndata: {{path: {'x' * 300}.csv}}\n"))
    assert found.startswith("a.yaml:2: data.path: cannot read /")
    assert found.endswith(".csv: File name too long")


def test_a_model_may_have_seeds_of_its_own(file):
    path = file(
        "data: {generate: {users: 20}}\nmodels: [{kind: fm-pair, seeds: [4, 5]}, popularity]\n"
    )
    first, second = config.read(path).models
    assert first.seeds == (4, 5) and second.seeds is None
    assert from_plain(as_plain(config.read(path))).models[0].seeds == (4, 5)
    assert mistakes(path, "models.0.seeds=[1, 1]") == [
        "command line: models.0.seeds: has a seed twice"
    ]
    assert mistakes(path, "models.0.seeds=[]") == [
        "command line: models.0.seeds: needs at least one seed"
    ]


def test_wrong_choices_of_the_reader_are_found_before_the_data_are_read(file):
    data = "{path: a.yaml, format: csv, refunds: kep, missing: dorp, order: rws}"
    text = f"data: {data}\nmodels: [popularity]\n"
    assert mistakes(file(text)) == [
        "a.yaml:1: data.refunds: refunds must be one of drop, keep, not 'kep'. "
        "Did you mean 'keep'?",
        "a.yaml:1: data.missing: missing must be one of drop, drop-untimed, error, not 'dorp'. "
        "Did you mean 'drop'?",
        "a.yaml:1: data.order: order must be one of rows, per-user, not 'rws'. "
        "Did you mean 'rows'?",
    ]


def test_every_filter_of_the_file_returns_events():
    for name, function in option_schema.FILTERS.items():
        assert get_type_hints(function)["return"] is Dataset, name
