"""Delimited files of every kind."""

import gzip
import zipfile

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data.formats.delimited import guess_separator, read_delimited
from fmpair.data.frame import decimal_commas, with_types
from fmpair.errors import DataError, Notice, OptionError

ROWS = [("ann", 7, "day"), ("bob", 8, "night")]


def saved(tmp_path, text, name="clicks.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::"])
def test_the_usual_separators_are_guessed(tmp_path, separator):
    lines = [("user", "item", "time"), *ROWS]
    text = "\n".join(separator.join(str(value) for value in line) for line in lines)
    assert read_delimited(saved(tmp_path, text)).rows() == ROWS


def test_a_separator_in_the_text_does_not_mislead_the_guess():
    assert guess_separator("user\titem\tnote\n1\t2\ta, b, c\n3\t4\tno\n") == "\t"


def test_other_separators_can_be_named(tmp_path):
    path = saved(tmp_path, "user=>item\n1=>2\n")
    assert read_delimited(path, separator="=>").rows() == [(1, 2)]


def test_files_without_a_header_take_the_names_given(tmp_path):
    path = saved(tmp_path, "1\t2\t3\n4\t5\t6\n", "u.data")
    frame = read_delimited(path, header=False, columns=["user", "item", "rating"])
    assert frame.columns == ["user", "item", "rating"]
    assert frame.rows() == [(1, 2, 3), (4, 5, 6)]
    assert read_delimited(path, header=False).columns == ["column_1", "column_2", "column_3"]


def test_gzip_and_zip_are_opened(tmp_path):
    text = b"user,item\nann,7\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/first.csv", text)
        archive.writestr("in/second.csv", b"user,item\nbob,8\n")
    assert read_delimited(tmp_path / "a.csv.gz").rows() == [("ann", 7)]
    assert read_delimited(tmp_path / "a.csv").rows() == [("ann", 7)], "its gzipped twin is found"
    assert read_delimited(tmp_path / "a.zip").rows() == [("ann", 7)]
    assert read_delimited(tmp_path / "a.zip", member="in/second.csv").rows() == [("bob", 8)]
    with pytest.raises(DataError, match=r"unknown member 'in/secnd.csv'. Did you mean"):
        read_delimited(tmp_path / "a.zip", member="in/secnd.csv")


def test_encodings_and_byte_order_marks(tmp_path):
    path = saved(tmp_path, "user,item\nJosé,é\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"is not utf-8 text .* encoding='latin-1'"):
        read_delimited(path)
    assert read_delimited(path, encoding="latin-1").rows() == [("José", "é")]
    assert read_delimited(saved(tmp_path, "\ufeffuser,item\n1,2\n")).columns == ["user", "item"]
    wide = saved(tmp_path, "user,item\nJosé,é\n", encoding="utf-16")
    with pytest.raises(DataError, match=r"is UTF-16 text, not utf-8: give encoding='utf-16'"):
        read_delimited(wide)
    assert read_delimited(wide, encoding="utf-16").rows() == [("José", "é")]
    with pytest.raises(DataError, match="unknown encoding 'latin-99'"):
        read_delimited(path, encoding="latin-99")


def test_leading_zeros_stay_and_whole_numbers_are_numbers(tmp_path):
    frame = read_delimited(saved(tmp_path, "user,item,zip\n007,1,01234\n8,2,99999\n"))
    assert frame["user"].to_list() == ["007", "8"]
    assert frame["item"].to_list() == [1, 2]
    assert frame["zip"].to_list() == ["01234", "99999"]


def test_ids_never_pass_through_floats(tmp_path):
    text = "user,item,price\n1.10,18446744073709551616,1.10\n1.1,2,2\n"
    frame = read_delimited(saved(tmp_path, text))
    assert frame["user"].to_list() == ["1.10", "1.1"]
    assert frame["item"].to_list() == ["18446744073709551616", "2"]
    assert frame["price"].to_list() == [1.1, 2.0]
    other = read_delimited(saved(tmp_path, text), ids=["price"])
    assert other["price"].to_list() == ["1.10", "2"]


@given(st.lists(st.text("0123456789.-+aeE", min_size=1), min_size=1))
def test_typed_ids_always_spell_as_they_did(values):
    typed = with_types(pl.DataFrame({"id": values}), ids=["id"])["id"]
    assert typed.cast(pl.String).to_list() == values


def test_nulls_can_be_chosen(tmp_path):
    path = saved(tmp_path, "user,item,time\n1,2,NA\n1,3,\n1,4,?\n")
    assert read_delimited(path)["time"].to_list() == [None, None, "?"]
    assert read_delimited(path, nulls=["?"])["time"].to_list() == ["NA", None, None]


@pytest.mark.parametrize("word", ["NULL", "n/a", "None", "nan", "<NA>", "\\N"])
def test_what_other_programs_write_for_missing_values_is_missing(tmp_path, word):
    path = saved(tmp_path, f"user,item,price\nann,x,3.5\nbob,y,{word}\n")
    assert read_delimited(path)["price"].to_list() == [3.5, None]


def test_a_word_that_may_be_an_id_is_not_taken_for_missing_in_silence(tmp_path):
    path = saved(tmp_path, "user,item,time\nann,NA,NA\nbob,x,day\nann,NA,\n,x,day\n")
    with pytest.warns(Notice, match="'item' has 'NA' in 2 rows, read as missing: nulls=") as told:
        assert read_delimited(path)["item"].to_list() == [None, "x", None, "x"]
    assert len(told) == 1  # neither the empty user nor the time
    assert read_delimited(path, nulls=[""])["item"].to_list() == ["NA", "x", "NA", "x"]


def test_rows_left_out_are_told_once_where_ids_are_read_again(tmp_path):
    path = saved(tmp_path, "user,item,time\nann,NA,day\nbob,x,day,more\n")
    with pytest.warns(Notice) as told:
        read_delimited(path, ragged="drop")
    assert [str(one.message).partition(" has ")[0][-13:] for one in told] == [
        "rows (line 3)",
        "column 'item'",
    ]


def test_truth_values_are_recognised(tmp_path):
    path = saved(tmp_path, "user,item,home\n1,2,True\n1,3,false\n1,4,\n")
    assert read_delimited(path)["home"].to_list() == [True, False, None]


def test_quoted_fields_may_hold_the_separator(tmp_path):
    path = saved(tmp_path, 'user,item\n"a,b",1\nc,2\n')
    assert read_delimited(path)["user"].to_list() == ["a,b", "c"]


def test_a_wrong_separator_suggests_the_right_one(tmp_path):
    path = saved(tmp_path, "user,item\nann,7\n")
    with pytest.raises(DataError, match=r"single column 'user,item'.*give separator=','"):
        read_delimited(path, separator=";")
    spaced = saved(tmp_path, "user item\nann 7\n")
    with pytest.raises(DataError, match="the separator may be ' '"):
        read_delimited(spaced)
    assert read_delimited(spaced, separator=" ").rows() == [("ann", 7)]


def test_a_column_alone_is_fine(tmp_path):
    assert read_delimited(saved(tmp_path, "user\nann\nbob\n")).rows() == [("ann",), ("bob",)]


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path):
    saved(tmp_path, "user,item\n")
    with pytest.raises(DataError, match=r"there is no file .*click\.csv\. Did you mean 'clicks.cs"):
        read_delimited(tmp_path / "click.csv")
    with pytest.raises(DataError, match=r"the folder .*nowhere does not exist"):
        read_delimited(tmp_path / "nowhere" / "click.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_delimited(tmp_path)


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_an_empty_file_is_named(tmp_path, text):
    with pytest.raises(DataError, match=r"clicks\.csv is empty"):
        read_delimited(saved(tmp_path, text))


def test_damaged_archives_are_named(tmp_path):
    for name in ("a.gz", "a.zip"):
        (tmp_path / name).write_bytes(b"not an archive")
        with pytest.raises(DataError, match=f"cannot read .*{name}"):
            read_delimited(tmp_path / name)


def test_rows_with_too_many_fields_are_an_error(tmp_path):
    with pytest.raises(
        DataError,
        match=r"clicks.csv: line 3 has 3 columns, the first line has 2: correct the file, or "
        r"leave out such rows with ragged='drop'$",
    ):
        read_delimited(saved(tmp_path, "user,item\n1,2\n1,2,3\n"))


RAGGED = "user,item,time\n1,2,day\n1,2\n\n3,4,night\n5,6,day,x\n"


def test_ragged_rows_are_named_by_their_lines(tmp_path):
    path = saved(tmp_path, RAGGED)
    with pytest.raises(DataError, match=r"line 3 has 2 columns.* 3 .2 ragged lines in all"):
        read_delimited(path)
    with pytest.warns(Notice, match=r"left out 2 ragged rows \(lines 3, 6\)"):
        frame = read_delimited(path, ragged="drop")
    assert frame.rows() == [(1, 2, "day"), (3, 4, "night")], "a blank line is no row"


def test_short_rows_may_be_filled_up(tmp_path):
    short = saved(tmp_path, "user,item,time\n1,2\n3,4,night\n")
    assert read_delimited(short, ragged="fill").rows() == [(1, 2, None), (3, 4, "night")]
    with pytest.raises(DataError, match=r"missing values with ragged='fill'$"):
        read_delimited(short)
    with pytest.raises(DataError, match=r"line 3 has 2 columns"):
        read_delimited(saved(tmp_path, RAGGED), ragged="fill")
    with pytest.raises(OptionError, match="ragged must be one of error, drop, fill, not 'skip'"):
        read_delimited(short, ragged="skip")


def test_lines_are_counted_as_an_editor_does_where_text_is_quoted(tmp_path):
    text = 'user,item,note\n1,2,"a, b\nand c"\n3,4\n5,6,""\n'
    with pytest.raises(DataError, match="line 4 has 2 columns, the first line has 3"):
        read_delimited(saved(tmp_path, text))
    with pytest.warns(Notice, match=r"left out 1 ragged rows \(line 4\)"):
        frame = read_delimited(saved(tmp_path, text), ragged="drop")
    assert frame["user"].to_list() == [1, 5]


def test_a_last_column_with_gaps_is_not_ragged(tmp_path):
    text = "user,item,note\r\n1,2,\r\n3,4,x\r\n"
    assert read_delimited(saved(tmp_path, text)).rows() == [(1, 2, None), (3, 4, "x")]


def test_a_forgotten_header_is_noticed(tmp_path):
    with pytest.raises(DataError, match=r"numbers, not column names \(1, 2\): give header=False"):
        read_delimited(saved(tmp_path, "1,2\n3,4\n"))


def test_two_columns_of_one_name_are_an_error(tmp_path):
    with pytest.raises(DataError, match=r"has two columns with one name"):
        read_delimited(saved(tmp_path, "user,user\n3,4\n"))


def test_the_wrong_number_of_names_is_an_error(tmp_path):
    path = saved(tmp_path, "1,2\n3,4\n")
    with pytest.raises(DataError, match="has 2 columns, but 3 names were given"):
        read_delimited(path, header=False, columns=["a", "b", "c"])
    with pytest.raises(OptionError, match="separator must not be empty"):
        read_delimited(path, separator="")


def test_numbers_with_a_decimal_comma_become_numbers_and_are_named(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("user;item;price\n1;2;3,50\n1;3;1.234,5\n2;3;7\n2;4;\n3;4;-0,5\n")
    expected = "column 'price' has .* such as '3,50', and is read as numbers: 3,50 is 3.50$"
    with pytest.warns(Notice, match=expected) as notices:
        frame = read_delimited(path)
    assert frame["price"].to_list() == [3.5, 1234.5, 7.0, None, -0.5] and len(notices) == 1


@pytest.mark.parametrize("prices", [["1,234", "5,678", "12"], ["3,50", "4,99"] * 9 + ["ask us"]])
def test_commas_that_may_mean_something_else_stay_text_and_are_named(tmp_path, prices):
    path = tmp_path / "prices.csv"
    path.write_text("user;item;price\n" + "".join(f"1;2;{price}\n" for price in prices))
    with pytest.warns(Notice, match=r"is read as text: write \d+\.\d+ to get numbers$"):
        frame = read_delimited(path)
    assert frame["price"].to_list() == prices


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,299.00", "142.00", "-12,000", None], [1299.0, 142.0, -12000.0, None]),
        (["1,299", "14.5"], [1299.0, 14.5]),
        (["1 299.50", "3 000", "7"], [1299.5, 3000.0, 7.0]),
        (["1'299.50", "12’000.00"], [1299.5, 12000.0]),
    ],
)
def test_numbers_with_thousands_and_a_sure_decimal_point_are_numbers(texts, numbers):
    frame = with_types(pl.DataFrame({"price": texts, "item": texts}), ids=["item"])
    assert frame["price"].to_list() == numbers
    assert frame["item"].to_list() == texts


@pytest.mark.parametrize(
    "texts", [["1,299", "142"], ["100,200,300", "7"], ["12 345", "7"], ["1,299.00", "n.n."]]
)
def test_text_that_may_be_no_number_with_thousands_stays_text(texts):
    assert with_types(pl.DataFrame({"price": texts}))["price"].to_list() == texts


def test_spaces_between_thousands_go_with_a_decimal_comma(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("user;item;price\n1;2;1 299,00\n1;3;14,5\n2;3;12 000,25\n")
    with pytest.warns(Notice, match="is read as numbers: 1 299,00 is 1299.00$"):
        frame = read_delimited(path)
    assert frame["price"].to_list() == [1299.0, 14.5, 12000.25]


def test_ids_with_commas_stay_as_they_are(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("user;item\n1;3,5\n2;4,25\n")
    assert read_delimited(path)["item"].to_list() == ["3,5", "4,25"]


@pytest.mark.parametrize("values", [["a,b", "c,d"], ["1,2,3", "4,5"], ["7", "8", "9", "3,5"], [""]])
def test_other_text_with_commas_is_not_taken_for_numbers(values):
    assert decimal_commas(pl.Series(values)) is None
    assert decimal_commas(pl.Series([1, 2])) is None


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$1,234.50", "$3", None, " -$2"], [1234.5, 3.0, None, -2.0]),
        (["12 €", "1,000€"], [12.0, 1000.0]),
        (["1.001,01 €", "3 €", "- 12,50 €"], [1001.01, 3.0, -12.5]),
        (["1001.01 EUR", "EUR 7"], [1001.01, 7.0]),
        (["1 001.01 CHF", "1'002.50 CHF"], [1001.01, 1002.5]),
        (["£ 5"], [5.0]),
    ],
)
def test_amounts_of_one_currency_are_numbers(texts, numbers):
    assert with_types(pl.DataFrame({"price": texts}))["price"].to_list() == numbers


@pytest.mark.parametrize(
    "texts",
    [
        *(["$3", "€3"], ["$3", "3"], ["$x"], ["US$ 3"], ["SKU 3"], ["3 EUR", "4 USD"]),
        *(["1 234 €"], ["1.001,01 €", "1,001.01 €"]),  # the decimal sign is not sure
    ],
)
def test_other_amounts_stay_text(texts):
    assert with_types(pl.DataFrame({"price": texts}))["price"].to_list() == texts
