def test_the_demo_shows_the_comparison_the_lists_and_ends_with_the_report(
    fmpair, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = fmpair("demo")
    assert result.code == 0, result.err
    for words in (
        "Popularity", "without", "with", "is best", "The oracle that generated the data", "NDCG@10",
        "in the morning", "at night", "comes first", "score", "fmpair init",
    ):  # fmt: skip
        assert words in result.out
    page = result.out.strip().splitlines()[-1]
    assert page == "runs/demo/report.html"
    assert "FM-Pair with context is best" in (tmp_path / page).read_text("utf-8")
