"""The options of a field, and which kind a column's type asks for."""

import datetime as dt

import polars as pl
import pytest

from fmpair.errors import DataError, OptionError
from fmpair.features import Field
from fmpair.features.field import field_from, kind_by_type, kind_of

MOMENT = dt.datetime(2024, 5, 1, 20, 15)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pl.Series(["a", "b"]), "categorical"),
        (pl.Series(["a", "b"], dtype=pl.Categorical), "categorical"),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), "categorical"),
        (pl.Series([None, None]), "categorical"),
        (pl.Series(["tea|pans", "tea|cups", "tea"]), "multi"),
        (pl.Series(["tea|pans", "tea", "pans"]), "categorical"),
        (pl.Series([True, None]), "boolean"),
        (pl.Series([0.5, 1.5]), "numeric"),
        (pl.Series([1, 2, 3, None] * 5), "categorical"),
        (pl.Series(range(100)), "numeric"),
        (pl.Series([["a"], []]), "multi"),
        (pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), "multi"),
        (pl.Series([[0.5, 1.0], None]), "vector"),
        (pl.Series([[0.5, 1.0]], dtype=pl.Array(pl.Float32, 2)), "vector"),
        (pl.Series([{"rock": 0.7, "pop": 0.3}]), "weighted"),
        (pl.Series([[{"name": "rock", "weight": 0.7}]]), "weighted"),
    ],
)
def test_the_type_decides_the_kind(values, kind):
    assert kind_by_type("c", values) == kind
    assert kind_of(values, Field()) == kind


def test_whole_numbers_are_codes_while_they_repeat():
    hours, years = pl.Series(list(range(24)) * 5), pl.Series(range(1900, 2000))
    assert kind_by_type("hour", hours) == "categorical"
    assert kind_by_type("year", years) == "numeric"
    assert kind_by_type("hour", hours.append(pl.Series([None], dtype=pl.Int64))) == "categorical"
    assert kind_by_type("id", pl.Series(list(range(1001)) * 5)) == "numeric"


@pytest.mark.parametrize("values", [[MOMENT.time()], [b"x"]])
def test_a_type_without_an_encoding_is_refused_with_a_way_out(values):
    with pytest.raises(DataError, match=r"column 'when' holds .*has no encoding.*with ignore"):
        kind_of(pl.Series("when", values), Field())


def test_a_kind_that_is_asked_for_goes_before_the_type():
    assert kind_of(pl.Series([MOMENT.date()]), Field("categorical")) == "categorical"
    assert kind_of(pl.Series(range(9)), Field("binned")) == "binned"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pl.Series("c", [["a"]]), "categorical"),
        (pl.Series("c", [[1.0]]), "numeric"),
        (pl.Series("c", [{"a": 1.0}]), "multi"),
        (pl.Series("c", [[["a"]]]), "multi"),
        (pl.Series("c", [b"x"]), "categorical"),
        (pl.Series("c", [object()], dtype=pl.Object), "categorical"),
    ],
)
def test_a_kind_that_the_type_cannot_have_is_refused(values, kind):
    with pytest.raises(DataError, match=f"column 'c' holds .* cannot be {kind}"):
        kind_of(values, Field(kind))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "numeri"}, "kind must be one of auto, categorical, .* not 'numeri'"),
        ({"binning": "log"}, "binning must be one of quantile, uniform, not 'log'"),
        ({"bins": 1}, "bins must be a whole number from 2 to 10,000, not 1"),
        ({"bins": 2.5}, "bins must be a whole number"),
        ({"separator": ""}, "separator must be text such as '|', not ''"),
        ({"normalize": "no"}, "normalize and standardize .* true or false"),
        ({"standardize": "yes"}, "normalize and standardize .* true or false"),
        ({"scale": -1}, "scale of a field must be 0 or more, not -1"),
        ({"scale": "big"}, "scale of a field must be 0 or more, not 'big'"),
        ({"scale": None}, "scale of a field must be 0 or more, not None"),
        ({"start": float("nan")}, "start of a field must be 0 or more, not nan"),
        ({"regularization": float("inf")}, "regularization of a field must be 0 or more, not inf"),
        ({"scael": 2}, "unknown field option 'scael'. Did you mean 'scale'?"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(options, message):
    with pytest.raises(OptionError, match=message):
        field_from(options)


def test_a_field_may_be_a_kind_a_mapping_or_a_field():
    assert field_from("binned") == field_from({"kind": "binned"}) == Field("binned")
    assert field_from(Field(bins=3)) == Field(bins=3)
    assert field_from({}) == Field()


@pytest.mark.parametrize("options", [3, None, ["numeric"]])
def test_anything_else_is_no_field(options):
    with pytest.raises(OptionError, match="a field must be a kind or a mapping of options"):
        field_from(options)


def test_a_billion_bins_are_refused():
    with pytest.raises(
        OptionError, match=r"bins must be a whole number from 2 to 10,000, not 1000"
    ):
        Field(kind="binned", bins=10**9)
