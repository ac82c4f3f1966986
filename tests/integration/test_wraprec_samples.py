"""Configurations built like WrapRec's own samples, pointed at MovieLens: migrated, checked, run.

They are written here after the structure of the public repository's examples: ratings predicted
by two kinds of matrix factorization, positive feedback ranked by several models, and attributes of
films and users; with fewer iterations.
"""

from pathlib import Path

import polars as pl
import pytest

from fmpair.config.migration import migrate
from fmpair.config.read import read
from fmpair.data.public_sets import fetch
from fmpair.experiment.run import run

pytestmark = [pytest.mark.slow, pytest.mark.realdata]

MML = "MyMediaLite.dll:MyMediaLite"
OURS = "WrapRec.Extensions.dll:WrapRec.Extensions.Models"
GENRES = ",".join(f"g{n}:b" for n in range(19))
SAMPLE = rf"""
<wraprec>
  <parameters>
    <param name="data" value="DATA" />
    <param name="iterations" value="ITERATIONS" />
  </parameters>
  <models>
    <model id="mf" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.RatingPrediction.MatrixFactorization"
        NumFactors="5,10" NumIter="{{iterations}}" />
    </model>
    <model id="bmf" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.RatingPrediction.BiasedMatrixFactorization"
        NumFactors="10" NumIter="{{iterations}}" LearnRate="0.02" Regularization="0.05" />
    </model>
    <model id="mp" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.ItemRecommendation.MostPopular" />
    </model>
    <model id="bprmf" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.ItemRecommendation.BPRMF" NumFactors="8"
        NumIter="{{iterations}}" WithReplacement="false" UniformUserSampling="false,true" />
    </model>
    <model id="wrmf" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.ItemRecommendation.WRMF" NumFactors="8" NumIter="5" />
    </model>
    <model id="uknn" class="WrapRec.Models.MmlRecommender">
      <parameters ml-class="{MML}.ItemRecommendation.UserKNN" K="40,80" />
    </model>
    <model id="bprfm" class="{OURS}.MmlBprfmRecommender">
      <parameters ml-class="{OURS}.BPRFM" NumFactors="8" NumIter="{{iterations}}" />
    </model>
    <model id="libfm" class="WrapRec.Models.LibFmWrapper">
      <parameters libFmPath="lib\libfm.net.exe" task="r" dim="1-1-8" method="sgd,mcmc" iter="20"
        learn_rate="0.02" save_model="train.model" />
    </model>
  </models>
  <data>
    <dataReaders>
      <reader id="ratings" path="{{data}}/u.data" sliceType="other" dataType="ratings"
        class="WrapRec.IO.CsvReader" hasHeader="false" delimiter="\t" />
      <reader id="films" path="{{data}}/u.item" sliceType="other" dataType="itemAttributes"
        class="WrapRec.IO.CsvReader" hasHeader="false" delimiter="|"
        header="filmId,title:n,date:n,video:n,link:n,{GENRES}" />
      <reader id="people" path="{{data}}/u.user" sliceType="other" dataType="userAttributes"
        class="WrapRec.IO.CsvReader" hasHeader="false" delimiter="|"
        header="userId,age:r,gender:d,occupation:d,zip:n" />
    </dataReaders>
    <dataContainers>
      <dataContainer id="ml100k" dataReaders="ratings" />
      <dataContainer id="ml100k-attributes" dataReaders="ratings,films,people" />
    </dataContainers>
  </data>
  <splits>
    <split id="cv" type="crossValidation" dataContainer="ml100k" numFolds="2" />
    <split id="shares" type="dynamic" dataContainer="ml100k" trainRatios="0.6,0.75" />
    <split id="attributes" type="dynamic" dataContainer="ml100k-attributes" trainRatios="0.75"
      userAttributes="gender,occupation" itemAttributes="g5,g8" />
  </splits>
  <evalContexts>
    <evalContext id="errors">
      <evaluator class="WrapRec.Evaluation.RMSE" />
      <evaluator class="WrapRec.Evaluation.MAE" />
      <evaluator class="WrapRec.Evaluation.RankingEvaluators" candidateItemsMode="training"
        numCandidates="1000" cutOffs="5,10,20" />
    </evalContext>
    <evalContext id="ranking">
      <evaluator class="WrapRec.Evaluation.RankingEvaluators" candidateItemsMode="training"
        candidateItemsFile="file.txt" numCandidates="100,max" cutOffs="5,10" />
      <evaluator class="WrapRec.Evaluation.RankingEvaluatorsOpr" candidateItemsMode="training"
        numCandidates="100" cutOffs="10" />
    </evalContext>
  </evalContexts>
  <experiments run="RUN" resultsFolder="results" separator="\t" verbosity="info">
    <experiment id="ratings" models="mf,bmf,libfm" splits="cv" evalContext="errors" />
    <experiment id="positive" models="mp,bprmf,wrmf,uknn" splits="shares" evalContext="ranking" />
    <experiment id="attributes" models="bprfm,mp" splits="attributes" evalContext="ranking" />
  </experiments>
</wraprec>
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Migrates the sample, and runs every file that comes of the named experiment."""
    monkeypatch.chdir(tmp_path)

    def go(name, iterations=8):
        changes = {"DATA": str(fetch("ml-100k")), "ITERATIONS": str(iterations), "RUN": name}
        text = SAMPLE
        for word, value in changes.items():
            text = text.replace(word, value)
        Path("sample.xml").write_text(text, "utf-8")
        found = migrate("sample.xml")
        for one in found:
            Path(f"{one.name}.yaml").write_text(one.text(), "utf-8")
        return found, [run(read(f"{one.name}.yaml")) for one in found]

    return go


def means(results, metric):
    """By model, of all folds."""
    rows = results.values.filter(metric=metric).group_by("model").agg(pl.col("value").mean())
    return dict(rows.iter_rows())


@pytest.mark.thorough
def test_ratings_by_two_kinds_of_matrix_factorization(runs):
    [one], [results] = runs("ratings", iterations=20)
    assert results.cells["error"].null_count() == len(results.cells)
    found = means(results, "rmse")
    plain = [value for name, value in found.items() if name.startswith("mf")]
    biased = [value for name, value in found.items() if name.startswith("bmf")]
    assert len(plain) == 2 and len(biased) == 1
    assert all(0.9 < value < 1.2 for value in (*plain, *biased))
    assert min(plain) > biased[0], "in twenty passes biases alone tell more than vectors do"
    assert any("save_model=train.model" in note for note in one.notes)
    assert any("verbosity=info" in note for note in one.notes)


@pytest.mark.thorough
def test_positive_feedback_with_two_training_shares(runs):
    found, both = runs("positive")
    assert [one.name for one in found] == ["positive-0.6", "positive-0.75"]
    assert len({one.values["output"]["folder"] for one in found}) == 2
    for results in both:
        assert results.cells["error"].null_count() == len(results.cells)
        recall = means(results, "recall@10")
        assert recall["wrmf"] > recall["mp"] > 0.02
    assert any("candidateItemsFile=file.txt" in note for note in found[0].notes)


def test_attributes_from_files_that_are_not_utf8(runs):
    [one], [results] = runs("attributes")
    assert one.values["data"]["items"]["encoding"] == "latin-1"
    assert results.cells["error"].null_count() == len(results.cells)
    assert "bprfm" in means(results, "recall@10")
