XML = """
<wraprec>
  <models><model id="mp" class="WrapRec.Models.MmlRecommender">
    <parameters ml-class="MyMediaLite.dll:MyMediaLite.ItemRecommendation.MostPopular" Odd="1" />
  </model></models>
  <data>
    <dataReaders>
      <reader id="all" path="clicks.csv" dataType="posFeedback" hasHeader="true" delimiter="," />
    </dataReaders>
    <dataContainers><dataContainer id="all" dataReaders="all" /></dataContainers>
  </data>
  <splits><split id="half" type="dynamic" dataContainer="all" trainRatios="{share}" /></splits>
  <parameters><param name="share" value="0.5" /></parameters>
  <evalContexts><evalContext id="e">
    <evaluator class="WrapRec.Evaluation.RankingEvaluators" cutOffs="5" />
  </evalContext></evalContexts>
  <experiments><experiment id="one" models="mp" splits="half" evalContext="e" /></experiments>
</wraprec>
"""


def test_a_migrated_file_validates_and_says_what_was_lost(fmpair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.xml").write_text(XML, "utf-8")
    (tmp_path / "clicks.csv").write_text("user,item\na,1\na,2\nb,1\nb,3\n", "utf-8")
    result = fmpair("migrate", "old.xml", "share=0.75")
    assert result.code == 0, result.err
    assert result.out.strip() == "one.yaml"
    assert "Odd=1 has no equivalent" in result.err
    assert "test: 0.25" in (tmp_path / "one.yaml").read_text("utf-8")
    assert fmpair("validate", "one.yaml").code == 0


def test_a_file_that_is_there_is_not_written_over(fmpair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.xml").write_text(XML, "utf-8")
    (tmp_path / "one.yaml").write_text("mine", "utf-8")
    result = fmpair("migrate", "old.xml")
    assert result.code != 0 and "--force" in result.err
    assert (tmp_path / "one.yaml").read_text("utf-8") == "mine"
    assert fmpair("migrate", "old.xml", "--force").code == 0
