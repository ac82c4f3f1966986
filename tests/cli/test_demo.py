def test_the_demo_shows_the_table_the_lists_and_what_to_do_next(fmpair):
    result = fmpair("demo")
    assert result.code == 0, result.err
    for words in (
        "popularity", "FM-Pair without context", "FM-Pair with context", "oracle", "Recall@10",
        "NDCG@10", "in the morning", "at night", "comes first", "score", "fmpair fit",
    ):  # fmt: skip
        assert words in result.out
