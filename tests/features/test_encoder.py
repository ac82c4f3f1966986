"""Values in, sparse features out: each kind of field, what is missing, what is unseen."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from decode import decode
from hypothesis import given
from hypothesis import strategies as st

from fmpair.arrays import empty_rows, group_rows
from fmpair.errors import DataError
from fmpair.features import Field
from fmpair.features.encoder import FAR, Encoder, scaled, sum_to_one

NAN, INF = float("nan"), float("inf")
TEXTS = st.lists(st.none() | st.text(max_size=4), min_size=1)
LISTS = st.lists(st.none() | st.lists(st.text("abc", max_size=2)), min_size=1)
NUMBERS = st.lists(
    st.none() | st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([NAN, INF]),
    min_size=1,
)


def fit(values, **options):
    return Encoder.fit("user", pl.Series("c", values, strict=False), Field(**options))


def shown(encoder, values):
    """What each cell becomes, {label: value}."""
    return decode(encoder.encode(pl.Series("c", values, strict=False))[0], encoder.labels())


def fitted(values, **options):
    """What the training column itself becomes."""
    return shown(fit(values, **options), values)


# Categories


@given(TEXTS)
def test_the_label_of_an_encoded_category_names_the_value(values):
    column = pl.Series("c", values, dtype=pl.String)
    encoder = Encoder.fit("user", column, Field())
    rows, unseen = encoder.encode(column)
    assert unseen == 0
    expected = [{} if value is None else {f"c={value}": 1.0} for value in values]
    assert decode(rows, encoder.labels()) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers_of_any_size_are_categories_of_their_own(values):
    assert fitted(values, kind="categorical") == [{f"c={value}": 1.0} for value in values]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["y", "x", "z"])])
def test_categories_of_a_category_type_are_their_text(dtype):
    encoder = fit(pl.Series(["x", None, "y"], dtype=dtype))
    assert shown(encoder, ["y", "x", None]) == [{"c=y": 1}, {"c=x": 1}, {}]


def test_an_unseen_value_is_absent_and_counted():
    rows, unseen = fit(["a", "b"]).encode(pl.Series("c", ["b", "new", None, "newer", "new"]))
    assert unseen == 3
    assert np.diff(rows.start).tolist() == [1, 0, 0, 0, 0]


def test_a_value_of_a_type_never_seen_is_unseen():
    assert fit(["a"]).encode(pl.Series("c", [1, 2]))[1] == 2


def test_text_finds_numeric_and_boolean_categories():
    assert shown(fit([7, 8], kind="categorical"), ["8"]) == [{"c=8": 1}]
    assert shown(fit([True, False], kind="categorical"), ["false"]) == [{"c=false": 1}]


def test_a_number_that_is_not_one_is_a_missing_category():
    assert fitted([1.5, NAN, None], kind="categorical") == [{"c=1.5": 1}, {}, {}]


@pytest.mark.parametrize(
    "kind", ["auto", "categorical", "multi", "boolean", "numeric", "binned", "weighted"]
)
def test_a_column_without_values_has_no_features_in_any_row(kind):
    rows, unseen = fit([None, None], kind=kind).encode(pl.Series("c", [None, None, None]))
    assert unseen == 0 and rows.size == 3 and not len(rows.column)


@pytest.mark.parametrize("dtype", [pl.String, pl.Int64, pl.Float64, pl.List(pl.String)])
def test_a_column_without_rows_can_be_fitted(dtype):
    encoder = fit(pl.Series([], dtype=dtype))
    assert encoder.encode(pl.Series("c", [], dtype=dtype))[0].size == 0


# Several values in a cell


@given(LISTS)
def test_members_of_a_list_share_one_equally(values):
    column = pl.Series("c", values, dtype=pl.List(pl.String))
    encoder = Encoder.fit("user", column, Field())
    decoded = decode(encoder.encode(column)[0], encoder.labels())
    for cell, features in zip(values, decoded):
        members = {f"c={member}" for member in cell or []}
        assert features == {label: round(1 / len(members), 6) for label in members}


def test_empty_lists_and_missing_members_have_no_features():
    assert fitted([[], ["a", None], None, [None]]) == [{}, {"c=a": 1}, {}, {}]
    assert fitted([[NAN, 2.0], [NAN]], kind="multi") == [{"c=2.0": 1}, {}]


def test_lists_of_categories_and_arrays_are_lists():
    assert fitted(pl.Series([["a"], ["b", "a"]], dtype=pl.List(pl.Categorical)))[1] == {
        "c=a": 0.5, "c=b": 0.5,
    }  # fmt: skip
    assert fitted(pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2))) == [
        {"c=1": 0.5, "c=2": 0.5}, {},
    ]  # fmt: skip


def test_text_is_split_at_the_separator_and_a_member_counts_once():
    cells = ["rock|pop", " pop | rock|pop", "", "||", None]
    assert fitted(cells, kind="multi") == [{"c=rock": 0.5, "c=pop": 0.5}] * 2 + [{}] * 3
    assert fitted(["a,b"], kind="multi", separator=",", normalize=False) == [{"c=a": 1, "c=b": 1}]


def test_a_single_value_is_a_list_of_one():
    assert fitted([3, None], kind="multi") == [{"c=3": 1}, {}]


def test_unseen_members_are_counted_and_the_known_share_one():
    rows, unseen = fit([["a"], ["b"]]).encode(pl.Series("c", [["a", "x", "y"], ["b", "a"]]))
    assert unseen == 2
    assert rows.value.tolist() == [1, 0.5, 0.5]


# Booleans


@pytest.mark.parametrize("values", [[True, False, None], [2, 0, None], ["True", "false", None]])
def test_what_is_false_is_absent(values):
    assert fitted(values, kind="boolean") == [{"c": 1}, {}, {}]


def test_a_boolean_column_is_boolean():
    assert fitted([False, True]) == [{}, {"c": 1}]


# Numbers


def test_numbers_are_standardised():
    assert fitted([1.0, 3.0, None, 2.0]) == [{"c": -1.224745}, {"c": 1.224745}, {}, {}]


def test_numbers_may_stay_raw():
    assert fitted([1.5, 0.0, -2.0, None], standardize=False) == [{"c": 1.5}, {}, {"c": -2}, {}]


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e300])
def test_a_number_that_no_feature_can_hold_is_missing(value):
    for standardize in (True, False):
        assert fitted([1.0, value, 2.0], standardize=standardize)[1] == {}


def test_an_outlier_is_drawn_in():
    encoder = fit([-1.0, 1.0])
    assert shown(encoder, [1e30, -1e30, 2.0]) == [{"c": FAR}, {"c": -FAR}, {"c": 2}]


@pytest.mark.parametrize("constant", [0.1, 3.0, 1e30])
def test_a_constant_says_nothing(constant):
    assert fitted([constant] * 3) == [{}] * 3


@given(NUMBERS)
def test_standardised_numbers_are_finite_with_mean_zero_and_never_far(values):
    column = pl.Series("c", values, dtype=pl.Float64)
    rows, unseen = Encoder.fit("user", column, Field()).encode(column)
    known = [v for v in values if v is not None and np.isfinite(v)]
    assert unseen == 0 and np.abs(rows.value).max(initial=0) <= FAR
    if len(known) > 1 and len(known) < FAR**2:  # then nothing can be drawn in
        assert abs(rows.value.sum()) < 1e-3


def test_numbers_are_read_from_text_and_categories():
    assert fitted(["1", "-1"], kind="numeric") == [{"c": 1}, {"c": -1}]
    column = pl.Series("c", ["30", "10", "20"], dtype=pl.Categorical)
    assert fitted(column, kind="numeric", standardize=False)[0] == {"c": 30}


def test_text_that_is_no_number_is_named():
    with pytest.raises(DataError, match="column 'c' is numeric, but 'old' is not a number"):
        fit(["1", "old"], kind="numeric")
    with pytest.raises(DataError, match="column 'c' is binned, but 'old' is not a number"):
        fit([1.0, 2.0], kind="binned").encode(pl.Series("c", ["old"]))
    with pytest.raises(DataError, match=r"column 'c' holds List\(Float64\), not numeric"):
        fit([1.0, 2.0]).encode(pl.Series("c", [[1.0]]))


# Bins


def test_quantile_bins_hold_equal_shares():
    encoder = fit([*range(8), 100, 1000, None, NAN], kind="binned", bins=5)
    assert encoder.labels() == [
        "c in (-inf, 1]", "c in (1, 3]", "c in (3, 5]", "c in (5, 7]", "c in (7, inf]",
    ]  # fmt: skip
    rows, _ = encoder.encode(pl.Series("c", [*range(8), 100, 1000, None]))
    assert rows.column.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert shown(encoder, [-50.0, 7.5, None]) == [{"c in (-inf, 1]": 1}, {"c in (7, inf]": 1}, {}]


def test_uniform_bins_have_equal_widths():
    encoder = fit([0.0, 1.0, 8.0], kind="binned", bins=4, binning="uniform")
    assert encoder.edges == (2.0, 4.0, 6.0)
    assert encoder.encode(pl.Series("c", [2.0, 2.1, 9.0]))[0].column.tolist() == [0, 1, 3]


def test_quantiles_that_fall_together_are_one_edge():
    assert fit([0.0] * 9 + [1.0], kind="binned").edges == (0.0,)
    assert fit([3.0, 3.0], kind="binned").labels() == ["c in (-inf, inf]"]


@given(NUMBERS, st.integers(2, 12))
def test_every_quantile_bin_has_a_value_and_every_value_a_bin(values, bins):
    column = pl.Series("c", values, dtype=pl.Float64)
    encoder = Encoder.fit("user", column, Field("binned", bins=bins))
    rows, _ = encoder.encode(column)
    known = [v for v in values if v is not None and np.isfinite(v)]
    assert len(rows.column) == len(known) and encoder.size <= bins
    assert not known or set(rows.column.tolist()) == set(range(encoder.size))


def test_bins_close_together_have_names_of_their_own():
    labels = fit([1_700_000_000 + second for second in range(10)], kind="binned").labels()
    assert len(set(labels)) == len(labels)


# Weighted sets, in their three forms


@pytest.mark.parametrize(
    "values",
    [
        ["rock:3| pop : 1", "pop:2", None, ""],
        [{"rock": 3.0, "pop": 1.0}, {"rock": None, "pop": 2.0}, None, {"rock": 0.0, "pop": None}],
        [
            [{"name": "rock", "weight": 3}, {"name": "pop", "weight": 1}],
            [{"name": "pop", "weight": 2}, {"name": None, "weight": 1}],
            None,
            [],
        ],
    ],
)
def test_weighted_cells_may_be_text_structs_or_lists_of_pairs(values):
    options = {"kind": "weighted"}
    assert fitted(values, **options) == [{"c=rock": 0.75, "c=pop": 0.25}, {"c=pop": 1}, {}, {}]
    raw = fitted(values, **options, normalize=False)
    assert raw == [{"c=rock": 3, "c=pop": 1}, {"c=pop": 2}, {}, {}]


def test_weights_of_a_repeated_name_are_added_up():
    assert fitted(["a:1|a:2|b:1"], kind="weighted", normalize=False) == [{"c=a": 3, "c=b": 1}]


def test_a_name_may_hold_colons_and_pairs_may_stand_in_arrays():
    assert fitted(["http://a:1"], kind="weighted") == [{"c=http://a": 1}]
    pair = pl.Struct({"name": pl.Categorical, "weight": pl.Float64})
    cells = [[{"name": "x", "weight": 2.0}]]
    assert fitted(pl.Series(cells, dtype=pl.Array(pair, 1))) == [{"c=x": 1}]


def test_what_weighs_nothing_is_absent():
    assert fitted(["a:0|b:1|c:nan|d:inf"], kind="weighted") == [{"c=b": 1}]


@pytest.mark.parametrize("cell", ["rock", "rock:", "rock:much", ":0.5"])
def test_text_without_a_weight_is_named(cell):
    with pytest.raises(DataError, match=rf"column 'c': '{cell}' is not a name with a weight"):
        fit([f"pop:1|{cell}"], kind="weighted")


@pytest.mark.parametrize(
    "values",
    [[1.0], [["rock"]], [{"rock": "much"}], [[{"weight": 1.0, "name": "x"}]], [[{"name": "x"}]]],
)
def test_cells_that_are_no_weighted_sets_are_refused(values):
    with pytest.raises(DataError, match=r"column 'c' holds .* weighted values must be structs of"):
        fit(values, kind="weighted")


# Scale, sums, growth


def test_scale_multiplies_after_the_sum_was_made_one():
    assert fitted([["a", "b"]], scale=3.0) == [{"c=a": 1.5, "c=b": 1.5}]
    assert fitted(["a"], scale=0.5) == [{"c=a": 0.5}]
    rows = scaled(fit(["a"]).encode(pl.Series("c", ["a"]))[0], 2.0)
    assert rows.value.dtype == np.float32 and rows.value.tolist() == [2]


@given(
    st.lists(st.floats(-(2.0**99), 2.0**99, width=32).filter(lambda v: abs(v) > 1e-30), min_size=1)
)
def test_absolute_values_of_a_normalised_row_sum_to_one(values):
    rows = group_rows(np.zeros(len(values), int), np.arange(len(values)), 2, np.array(values))
    assert np.abs(sum_to_one(rows).value).sum() == pytest.approx(1, abs=1e-5)


def test_rows_without_entries_stay_as_they_are():
    assert sum_to_one(empty_rows(2)).start.tolist() == [0, 0, 0]


@given(TEXTS, TEXTS)
def test_extending_keeps_the_numbers_of_known_values(old, new):
    before = Encoder.fit("user", pl.Series("c", old, dtype=pl.String), Field())
    after = before.extend(pl.Series("c", new, dtype=pl.String))
    assert after.labels()[: before.size] == before.labels()
    assert after.encode(pl.Series("c", [*old, *new], dtype=pl.String))[1] == 0


def test_new_members_of_lists_join():
    encoder = fit([["a"], ["b"]]).extend(pl.Series("c", [["c", "a"], None]))
    assert encoder.labels() == ["c=a", "c=b", "c=c"]


def test_a_column_that_was_all_missing_learns_its_type_later():
    assert fit([None]).extend(pl.Series("c", ["a"])).labels() == ["c=a"]


def test_what_was_learned_from_numbers_stays_when_more_come():
    encoder = fit([1.0, 3.0])
    assert encoder.extend(pl.Series("c", [100.0])) is encoder


def test_values_of_another_type_cannot_join():
    with pytest.raises(DataError, match=r"column 'c' holds Date, .* as Int64: give both"):
        fit([1, 2], kind="categorical").extend(pl.Series("c", [dt.date(2024, 1, 1)]))


@pytest.mark.parametrize("values", [["a"], [["a", "b"]], [1.5, 2.5], [True], [{"a": 0.5}], [None]])
def test_rows_are_int64_int32_float32(values):
    rows, _ = fit(values).encode(pl.Series("c", values))
    assert (rows.start.dtype, rows.column.dtype, rows.value.dtype) == ("int64", "int32", "float32")
