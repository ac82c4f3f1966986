"""A WrapRec configuration becomes experiment files that run."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import quoteattr

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.config.document import parse_yaml
from fmpair.config.migration import LONGEST, file_name, migrate, model_of
from fmpair.config.read import read
from fmpair.errors import DataError, FmpairError, UnknownError
from fmpair.experiment.prepared import prepare
from fmpair.experiment.run import run
from fmpair.models import catalog

# A WrapRec configuration becomes an experiment file that runs.


XML = r"""
<wraprec>
  <parameters><param name="folds" value="3"/><param name="root" value="data"/></parameters>
  <models>
    <model id="mp" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="MyMediaLite.dll:MyMediaLite.ItemRecommendation.MostPopular" />
    </model>
    <model id="bprmf" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="MyMediaLite.dll:MyMediaLite.ItemRecommendation.BPRMF"
        NumFactors="4,8" NumIter="3" UniformUserSampling="false,true" />
    </model>
    <model id="bprfm" class="WrapRec.Extensions.dll:WrapRec.Extensions.Models.MmlBprfmRecommender">
      <parameters ml-class="WrapRec.Extensions.dll:WrapRec.Extensions.Models.BPRFM"
        NumFactors="4" NumIter="2,3" LearnRate="0.05" RegU="0.01" RegI="0.02" Odd="3" />
    </model>
    <model id="slope" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="MyMediaLite.dll:MyMediaLite.RatingPrediction.SlopeOne" />
    </model>
  </models>
  <data>
    <dataReaders>
      <reader id="all" path="{root}/clicks.csv" sliceType="other" dataType="posFeedback"
        class="WrapRec.IO.CsvReader" hasHeader="true" delimiter=","
        header="uid,iid,time:d,junk:n" />
      <reader id="genres" path="{root}/genres.txt" sliceType="other" dataType="itemAttributes"
        class="WrapRec.IO.CsvReader" hasHeader="false" delimiter="\t" header="filmId,genre:md" />
      <reader id="train" path="{root}/clicks.csv" sliceType="train" dataType="posFeedback"
        hasHeader="true" delimiter="," header="uid,iid,time:d,junk:n" />
      <reader id="test" path="{root}/later.csv" sliceType="test" dataType="posFeedback"
        hasHeader="true" delimiter="," header="uid,iid,time:d,junk:n" />
      <reader id="bare" path="{root}/bare.txt" dataType="ratings" hasHeader="false"
        delimiter="::" />
    </dataReaders>
    <dataContainers>
      <dataContainer id="all" dataReaders="all,genres" allowDuplicates="true" />
      <dataContainer id="parts" dataReaders="train,test" />
      <dataContainer id="bare" dataReaders="bare" />
    </dataContainers>
  </data>
  <splits>
    <split id="cv" type="crossValidation" dataContainer="all" numFolds="{folds}"
      feedbackAttributes="time" itemAttributes="genre" />
    <split id="fixed" type="static" dataContainer="parts" />
    <split id="shares" type="dynamic" dataContainer="bare" trainRatios="0.5,0.75" />
  </splits>
  <evalContexts>
    <evalContext id="opr">
      <evaluator class="WrapRec.Evaluation.RankingEvaluatorsOpr" candidateItemsMode="training"
        numCandidates="10,max" cutOffs="5" />
    </evalContext>
    <evalContext id="errors">
      <evaluator class="WrapRec.Evaluation.RMSE" />
      <evaluator class="WrapRec.Evaluation.RankingEvaluators" cutOffs="5,10" />
    </evalContext>
  </evalContexts>
  <experiments run="EXPERIMENTS" resultsFolder="results" separator="\t" subFolder="true">
    <experiment id="first" models="mp,bprmf,bprfm,slope" splits="cv" evalContext="opr" />
    <experiment id="static" models="mp" splits="fixed" evalContext="opr" />
    <experiment id="ratios" models="mp" splits="shares" evalContext="errors" />
  </experiments>
</wraprec>
"""


@pytest.fixture
def old(tmp_path):
    """Writes the configuration that runs the named experiments, and the data it reads."""
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()

    def events(count):
        return pl.DataFrame(
            {
                "a": [f"u{n}" for n in rng.integers(0, 12, count)],
                "b": [f"i{n}" for n in rng.integers(0, 20, count)],
                "c": rng.choice(["day", "night"], count),
                "d": rng.random(count),
            }
        )

    events(300).write_csv(tmp_path / "data" / "clicks.csv")
    events(60).write_csv(tmp_path / "data" / "later.csv")
    genres = "\n".join(f"i{n}\t{'war|love' if n % 2 else 'love'}" for n in range(20))
    (tmp_path / "data" / "genres.txt").write_text(genres, "utf-8")
    bare = "\n".join(f"{n % 9}::{n % 7}::{n % 5 + 1}::99" for n in range(80))
    (tmp_path / "data" / "bare.txt").write_text(bare, "utf-8")

    def write(experiments):
        path = tmp_path / "old.xml"
        path.write_text(XML.replace("EXPERIMENTS", experiments), "utf-8")
        return path

    return write


def migrated(path, **parameters):
    """The experiments of the file, written beside it and read back."""
    found = migrate(path, parameters, path.parent)
    for one in found:
        (path.parent / f"{one.name}.yaml").write_text(one.text(), "utf-8")
    return found, [read(path.parent / f"{one.name}.yaml") for one in found]


def test_cross_validation_of_models_with_comma_lists_migrates_and_runs(old, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (one,), (experiment,) = migrated(old("first"))
    assert [model.kind for model in experiment.models] == [
        "popularity", "bpr-mf", "bpr-mf", "bpr-mf", "bpr-mf", "fm-pair", "fm-pair",
    ]  # fmt: skip
    results = run(experiment)
    assert results.cells["error"].null_count() == len(results.cells) == 7 * 3
    assert set(results.values["metric"]) >= {"recall@5[first10]", "recall@5"}
    assert any("SlopeOne" in note for note in one.notes)
    assert any("Odd=3" in note for note in one.notes)


def test_attributes_are_those_the_split_names(old):
    _, (experiment,) = migrated(old("first"))
    last = experiment.models[-1]
    assert (last.context, last.user_fields, last.item_fields) == (("time",), (), ("genre",))
    assert last.options["regularization"] == {
        "user": 0.01, "item": 0.02, "negative": 0.00025, "bias": 0,
    }  # fmt: skip
    assert (last.options["loss"], last.options["positives"]) == ("bpr", "user")


def test_a_parameter_given_by_the_caller_goes_over_the_file_s(old):
    _, (experiment,) = migrated(old("first"), folds="4")
    assert experiment.split.options["count"] == 4


def test_an_unknown_parameter_is_refused(old):
    with pytest.raises(UnknownError, match="Did you mean 'folds'"):
        migrate(old("first"), {"fold": "4"})


def test_a_static_split_is_one_of_given_files(old):
    _, (experiment,) = migrated(old("static"))
    assert experiment.split.kind == "given"
    assert experiment.data.train and experiment.data.test


def test_every_training_share_becomes_a_file_of_its_own(old):
    found, experiments = migrated(old("ratios"))
    assert [one.name for one in found] == ["ratios-0.5", "ratios-0.75"]
    assert [e.split.options["test"] for e in experiments] == [0.5, 0.25]
    assert "rmse" in experiments[0].metrics
    folders = [one.values["output"]["folder"] for one in found]
    assert folders == ["results/ratios-0.5", "results/ratios-0.75"]


def test_a_missing_data_file_is_noted(old, tmp_path):
    path = old("first")
    (tmp_path / "data" / "genres.txt").unlink()
    assert any("genres.txt" in note for note in migrate(path, {}, tmp_path)[0].notes)


@pytest.mark.parametrize(
    ("theirs", "given", "ours"),
    [
        ("ItemRecommendation.UserKNN", {"K": "40,80"}, {"k": {"grid": [40, 80]}}),
        ("ItemRecommendation.WRMF", {"NumFactors": "8", "Alpha": "2"}, {"factors": 8, "alpha": 2}),
        ("RatingPrediction.MatrixFactorization", {"NumIter": "30"}, {"epochs": 30}),
    ],
)
def test_options_of_a_model_have_the_names_they_have_here(theirs, given, ours):
    made = model_of("m", "", {"ml-class": f"MyMediaLite.dll:MyMediaLite.{theirs}", **given}, [])
    assert {name: made[name] for name in ours} == ours
    known = catalog.options(made["kind"])["option"].to_list()
    assert all(name in known for name in ours)


def rated(name, **given):
    place = f"MyMediaLite.dll:MyMediaLite.RatingPrediction.{name}"
    return model_of("m", "", {"ml-class": place, **given}, [])


def test_two_kinds_of_matrix_factorization_are_two_models_that_use_their_options():
    plain = rated("MatrixFactorization", LearnRate="0.02", Regularization="0.05,0.1")
    biased = rated("BiasedMatrixFactorization", LearnRate="0.02", Regularization="0.05", RegI="0.1")
    assert (plain["learner"], plain["linear"], plain["learning_rate"]) == ("sgd", False, 0.02)
    assert plain["regularization"] == {"grid": [0.05, 0.1]}
    assert biased["learner"] == "sgd" and "linear" not in biased
    assert biased["regularization"] == {"user": 0.05, "item": 0.1, "bias": 0.01}


def test_what_the_file_leaves_open_is_as_in_mymedialite():
    made = rated("MatrixFactorization")
    assert (made["factors"], made["epochs"], made["init_std"]) == (10, 30, 0.1)
    assert (made["learning_rate"], made["regularization"]) == (0.01, 0.015)
    wrmf = model_of("w", "", {"ml-class": "MyMediaLite.ItemRecommendation.WRMF"}, [])
    assert (wrmf["regularization"], wrmf["frequency"], wrmf["alpha"]) == (0.015, 0, 1)


def test_several_values_of_a_share_of_regularisation_become_a_grid():
    made = model_of("b", "", {"ml-class": "X.BPRMF", "RegU": "0.1,0.2", "RegI": "0.3"}, [])
    assert [one["user"] for one in made["regularization"]["grid"]] == [0.1, 0.2]
    assert {one["item"] for one in made["regularization"]["grid"]} == {0.3}


def test_libfm_s_triples_are_told_apart():
    notes = []
    given = {"dim": "1-0-8", "method": "sgd", "regular": "0-0.1-0.2", "save_model": "a.model"}
    made = model_of("l", "WrapRec.Models.LibFmWrapper", given, notes)
    assert (made["factors"], made["linear"], made["learner"]) == (8, False, "sgd")
    assert (made["regularization"]["user"], made["regularization"]["bias"]) == (0.2, 0.1)
    assert any("save_model=a.model" in note for note in notes)


def test_an_option_that_means_nothing_to_the_model_is_named_and_left_out():
    notes = []
    made = model_of("p", "", {"ml-class": "X.MostPopular", "LearnRate": "0.1"}, notes)
    assert made == {"kind": "popularity", "name": "p"}
    assert notes == ["model p: popularity has no option for LearnRate=0.1"]


LOST = (
    ('delimiter="\\t"', 'delimiter="\\t" level="2"', "level=2"),
    ('allowDuplicates="true"', 'allowDuplicates="true" cut="5"', "cut=5"),
    ('numFolds="{folds}"', 'numFolds="{folds}" shuffle="no"', "shuffle=no"),
    ('cutOffs="5" />', 'cutOffs="5" candidateItemsFile="f.txt" />', "candidateItemsFile=f.txt"),
    ('cutOffs="5" />', 'cutOffs="5" userMetricsFile="u.txt" />', "userMetricsFile=u.txt"),
    ("EXPERIMENTS", 'first" verbosity="trace', "verbosity=trace"),
    ("EXPERIMENTS", 'first" jointResults="all.csv', "jointResults=all.csv"),
    ('splits="cv"', 'splits="cv" note="x"', "note=x"),
    ('NumFactors="4,8"', 'NumFactors="4,8" save_model="m.txt"', "save_model=m.txt"),
    ("</wraprec>", "<plots/></wraprec>", "element <plots> is left out"),
    ("EXPERIMENTS", "first", r"separator=\t"),
    ("EXPERIMENTS", "first", "subFolder=true"),
)


@pytest.mark.parametrize(("there", "written", "said"), LOST, ids=[said for _, _, said in LOST])
def test_what_has_no_equivalent_is_named_as_lost(old, there, written, said):
    path = old("first" if there != "EXPERIMENTS" else "EXPERIMENTS")
    text = path.read_text("utf-8")
    assert there in text
    path.write_text(text.replace(there, written), "utf-8")
    assert any(said in note for note in migrate(path, {"folds": "2"}, path.parent)[0].notes)


def test_a_table_that_is_not_utf8_is_read_in_its_encoding(old, tmp_path):
    (tmp_path / "data" / "genres.txt").write_bytes("i1\twar|éloge\ni2\tlove\n".encode("latin-1"))
    (one,), (experiment,) = migrated(old("first"))
    assert one.values["data"]["items"]["encoding"] == "latin-1"
    table = prepare(experiment.data, experiment.filters, experiment.split).data.item_table
    assert ["war", "éloge"] in table["genre"].to_list()


def test_a_file_that_is_not_wraprec_s_is_refused(tmp_path):
    (tmp_path / "other.xml").write_text("<project/>", "utf-8")
    with pytest.raises(DataError, match="begins with <project>"):
        migrate(tmp_path / "other.xml")


SMALL = """<wraprec>
  <parameters>PARAMETERS</parameters>
  <models><model id="mp" class="MostPopular"/><model id="fm" class="BPRFM">
    <parameters ml-class="BPRFM" NumFactors="FACTORS" Odd="ODD"/></model></models>
  <dataReaders><reader id="all" path="PATH" dataType="posFeedback" header="a,b"/></dataReaders>
  <dataContainer id="all" dataReaders="all"/>
  <split id="half" type="dynamic" dataContainer="all" trainRatios="SHARES"/>
  <evalContext id="e"><evaluator class="RankingEvaluators" cutOffs="5"/></evalContext>
  <experiments resultsFolder="RESULTS">
    <experiment id="ID" models="mp,fm" splits="SPLITS" evalContext="e"/></experiments>
</wraprec>"""
USUAL = {"PARAMETERS": "", "FACTORS": "4", "ODD": "1", "PATH": "c.csv", "SHARES": "0.5",
         "RESULTS": "results", "ID": "one", "SPLITS": "half"}  # fmt: skip


@pytest.fixture
def small(tmp_path):
    """Writes a configuration with some attributes as they are given."""

    def write(head="", **changed):
        text = SMALL
        for name, usual in USUAL.items():
            text = text.replace(name, changed.get(name, usual))
        (tmp_path / "small.xml").write_text(head + text, "utf-8")
        return tmp_path / "small.xml"

    return write


@pytest.mark.parametrize("id", ["../../evil", "/etc/x", "..", "a/b", "C:\\x", "CON", "&#10;"])
def test_no_id_leads_out_of_the_folder(small, tmp_path, id):
    [one] = migrate(small(ID=id), folder=tmp_path)
    assert (tmp_path / f"{one.name}.yaml").resolve().parent == tmp_path.resolve()
    assert one.values["name"] == one.name
    assert ".." not in Path(one.values["output"]["folder"]).parts


@pytest.mark.parametrize("folder", ["/tmp/x", "../x", "a/../../x", "~/x", "C:x"])
def test_results_stay_below_the_folder_of_the_run(small, folder):
    [one] = migrate(small(RESULTS=folder))
    assert "output" not in one.values
    assert f"resultsFolder={folder} is left out: results go to runs/NAME" in one.notes


def test_experiments_of_names_that_fall_together_keep_a_file_each(small):
    found = migrate(small(SHARES="0.5,0.50, 0.5 "))
    assert [one.name for one in found] == ["one-0.5", "one-0.50", "one-0.5-2"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30))
def test_whatever_an_attribute_says_the_file_is_read_back_as_it_was_meant(text):
    hostile = text.replace("{", "(").replace("}", ")")  # no parameters here
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.xml"
        quoted = quoteattr(f"a: b #x\nmodels: [evil]\n{hostile}")[1:-1]
        content = SMALL
        for name, usual in {**USUAL, "PATH": quoted, "ODD": quoted, "ID": quoted}.items():
            content = content.replace(name, usual)
        path.write_text(content, "utf-8")
        try:
            [one] = migrate(path, folder=folder)
        except FmpairError as error:
            assert "\n" not in str(error)
            return
    assert parse_yaml(one.text(), "a.yaml").values == one.values
    assert [model["kind"] for model in one.values["models"]] == ["popularity", "fm-pair"]


def test_a_line_break_in_a_note_does_not_end_the_comment(small):
    [one] = migrate(small(ODD="1&#10;models: [evil]&#10;"))
    assert "# " in one.text() and "\nmodels: [evil]" not in one.text()
    assert parse_yaml(one.text(), "a.yaml").values == one.values


def test_a_document_type_is_refused_before_its_entities_grow(small):
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    head = f'<!DOCTYPE wraprec [<!ENTITY l0 "ha">{laughs}]>'
    with pytest.raises(DataError, match="has a document type: delete it"):
        migrate(small(head, ODD="&l9;"))


def test_parameters_that_double_each_other_are_refused(small):
    names = "abcdefghijklmnopqrs"
    chain = [f'<param name="{a}" value="{{{b}}}{{{b}}}"/>' for a, b in pairwise(names)]
    chain.append(f'<param name="{names[-1]}" value="0123456789"/>')
    with pytest.raises(DataError, match=r"more than 10,000 characters with all parameters"):
        migrate(small(PARAMETERS="".join(chain), ODD="{a}"))


def test_parameters_in_parameters_end_somewhere(small):
    chain = "".join(f'<param name="p{n}" value="{{p{n + 1}}}"/>' for n in range(50))
    with pytest.raises(DataError, match=r"nested more than 20 levels deep"):
        migrate(small(PARAMETERS=chain + '<param name="p50" value="1"/>', ODD="{p0}"))


def test_splits_and_shares_are_not_multiplied_out_without_end(small):
    with pytest.raises(DataError, match="more than 100 experiments of splits and shares"):
        migrate(small(SPLITS="half," * 2000, SHARES="0.5," * 2000))


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"SHARES": "half"}, "trainRatios must be shares between 0 and 1, not 'half'"),
        ({"SHARES": "nan"}, "trainRatios must be shares between 0 and 1, not 'nan'"),
        ({"SPLITS": "none"}, "unknown split 'none'. Known: half"),
        ({"FACTORS": "x" * 20_000}, "has more than 10,000 characters"),
        ({"PARAMETERS": "<x/>" * 60_000}, "more than 200,000 bytes"),
    ],
)
def test_an_attribute_that_says_nothing_of_use_is_named(small, attributes, said):
    with pytest.raises(FmpairError) as caught:
        migrate(small(**attributes))
    assert said in str(caught.value)


# Any text becomes a name that stays in its folder.


HOSTILE = st.text() | st.text("./\\:~ -a\0\n") | st.sampled_from(["..", "/etc/x", "CON", "aux.b"])


@given(HOSTILE, st.lists(HOSTILE, max_size=3))
def test_no_name_leads_out_of_its_folder(text, taken):
    name = file_name(text, taken)
    path = Path("/folder") / f"{name}.yaml"
    assert path.resolve().parent == Path("/folder") and path.name == f"{name}.yaml"
    assert name.isascii() and name.isprintable() and not name.startswith((".", "-"))
    assert 0 < len(name) <= LONGEST + 20
    assert name.lower() not in {one.lower() for one in taken}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("first-cv-0.5", "first-cv-0.5"),
        ("../../.bashrc", "bashrc"),
        ("C:\\x y", "C-x-y"),
        ("nul", "experiment-nul"),
        ("…", "experiment"),
    ],
)
def test_what_is_plain_stays(text, name):
    assert file_name(text) == name


def test_names_that_fall_together_are_numbered():
    assert file_name("a/b", ["a-b"]) == "a-b-2"
    assert file_name("A b", ["a-b", "a-b-2"]) == "A-b-3"
