"""One function reads them all."""

import gzip
import io
import sys
import zipfile

import polars as pl
import pytest

from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.read import read, read_contents, read_frame
from fmpair.errors import DataError, OptionError

CLICKS = pl.DataFrame({"user": ["007", "8"], "item": [7, 8], "time": ["day", None]})


def saved(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="latin-1")
    return path


def test_csv_parquet_and_json_lines_hold_the_same(tmp_path):
    CLICKS.write_csv(tmp_path / "a.csv")
    CLICKS.write_parquet(tmp_path / "a.parquet")
    CLICKS.write_ndjson(tmp_path / "a.jsonl")
    (tmp_path / "a.json").write_text(CLICKS.write_json())
    for name in ("a.csv", "a.parquet", "a.jsonl", "a.json"):
        assert read(tmp_path / name).frame().equals(CLICKS), name


@pytest.mark.parametrize("text", ["user,item\n1,2\n", '{"user": 1, "item": 2}\n'])
def test_a_dash_is_standard_input(monkeypatch, text):
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    assert read("-").frame().rows() == [(1, 2)]


def test_options_for_roles_and_tables_are_passed_on(tmp_path):
    path = saved(tmp_path, "a.csv", "who,what,place\n007,1.10,x\n8,1.1,y\n")
    users = saved(tmp_path, "users.csv", "who,age\n8,40\n")
    kinds = saved(tmp_path, "kinds.csv", "what,kind\n1.10,5\n1.10,6\n1.1,5\n")
    data = read(path, user="who", item="what", users=users.rename(tmp_path / "u.csv"),
                items=pl.DataFrame({"what": ["1.1"], "cost": [2]}))  # fmt: skip
    assert data.frame()["user"].to_list() == ["007", "8"]
    assert data.frame()["item"].to_list() == ["1.10", "1.1"]
    assert data.user_table["age"].to_list() == [None, 40]
    long = read(path, user="who", item="what", items=kinds)
    assert long.item_table["kind"].to_list() == [["5", "6"], ["5"]]


def test_times_in_text_are_read_where_they_are_the_timestamp(tmp_path):
    path = saved(tmp_path, "a.csv", "user,item,timestamp,day\n1,2,2024-01-02 10:00:00,2024-01-02\n")
    data = read(path)
    assert data.columns.schema == {"timestamp": pl.Datetime("us"), "day": pl.String}


def test_unknown_formats_and_options_get_the_nearest_name(tmp_path):
    path = saved(tmp_path, "a.csv", "user,item\n1,2\n")
    with pytest.raises(OptionError, match=r"unknown format 'parket'\. Did you mean 'parquet'\?"):
        read(path, "parket")
    with pytest.raises(OptionError, match=r"unknown option 'seperator'\. Did you mean 'separator"):
        read(path, seperator=",")


def test_a_missing_column_gets_the_nearest_name(tmp_path):
    with pytest.raises(DataError, match=r"Is it 'usr'\? Then give user='usr'"):
        read(saved(tmp_path, "a.csv", "usr,item\n1,2\n"))


def test_a_header_without_rows_is_an_error(tmp_path):
    with pytest.raises(DataError, match="there are no events"):
        read(saved(tmp_path, "a.csv", "user,item\n"))


def test_foreign_bytes_are_named(tmp_path):
    for name, message in (("a.parquet", "is not a Parquet file"), ("a.jsonl", "is not JSON lines")):
        with pytest.raises(DataError, match=message):
            read(saved(tmp_path, name, "{nonsense"))


def movielens_100k(folder):
    flags = ["|".join("1" if n in on else "0" for n in range(19)) for on in ({1, 5}, {0})]
    saved(folder, "u.data", "1\t10\t5\t100\n2\t20\t3\t200\n")
    saved(folder, "u.user", "1|24|M|writer|01234\n2|30|F|artist|99999\n")
    saved(folder, "u.item", f"10|Caf\xe9 (1995)|01-Jan-1995||url|{flags[0]}\n"
                            f"20|unknown||||{flags[1]}\n")  # fmt: skip
    return folder


def test_movielens_100k_comes_with_its_tables(tmp_path):
    data = read(movielens_100k(tmp_path), titles=True)
    assert data.frame().rows() == [(1, 10, 5, 100), (2, 20, 3, 200)]
    assert data.user_table.rows() == [(24, "M", "writer", "01234"), (30, "F", "artist", "99999")]
    assert data.all_item_columns.rows() == [("Café (1995)", 1995, ["Action", "Comedy"]),
                                      ("unknown", None, [])]  # fmt: skip
    assert read(tmp_path).item_table.columns == ["year", "genres"]


def test_movielens_1m_is_read_from_the_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/ratings.dat", "1::10::5::100\n2::20::3::200\n")
        archive.writestr("ml-1m/users.dat", "1::F::18::12::48067\n2::M::56::0::70072\n")
        archive.writestr("ml-1m/movies.dat", "10::A: B (1994)::Comedy|Sci-Fi\n30::C (2000)::War\n")
    data = read(tmp_path / "ml-1m.zip")
    assert data.user_table.rows() == [("F", 18, "programmer", "48067"), ("M", 56, "other", "70072")]
    assert data.items.ids.to_list() == [10, 20, 30]
    assert data.item_table["genres"].to_list() == [["Comedy", "Sci-Fi"], None, ["War"]]


def test_a_movielens_folder_without_ratings_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"must contain u\.data \(100K\) or ratings\.dat \(1M\)"):
        read(tmp_path, "movielens")
    saved(tmp_path, "u.data", "1\t10\t5\t100\n")
    with pytest.raises(DataError, match=r"does not contain u\.user"):
        read(tmp_path)


def test_frappe_gives_the_cost_to_the_item_and_the_count_to_the_weight(tmp_path):
    rows = ["user item cnt daytime cost city", "0 5 3 morning free 0", "1 6 1 night paid 369"]
    apps = ["item category downloads developer language price rating",
            "5 Tools 1-5 X en Free 4.5", "6 unknown 1-5 X en $2.06 unknown"]  # fmt: skip
    saved(tmp_path, "frappe.csv", "\n".join(rows).replace(" ", "\t"))
    saved(tmp_path, "meta.csv", "\n".join(apps).replace(" ", "\t"))
    data = read(tmp_path)
    assert data.weight.tolist() == [3, 1]
    assert data.context == ("daytime", "city")
    assert data.columns["city"].to_list() == ["0", "369"]
    assert data.item_table["cost"].to_list() == ["free", "paid"]
    meta = read(tmp_path, meta=True).item_table
    assert meta["price"].to_list() == [0.0, 2.06]
    assert meta["category"].to_list() == ["Tools", None]
    assert meta["stars"].to_list() == [4.5, None]
    with pytest.raises(DataError, match=r"does not contain frappe\.csv"):
        read(tmp_path.parent, "frappe")


def test_cfm_rows_have_named_contexts_and_kept_numbers(tmp_path):
    path = saved(tmp_path, "train.csv", "43-958-966-972-973-976-985-1168,25-4082\n")
    data = read(path, "cfm")
    assert data.frame().row(0)[:4] == (43, 25, "958", "966")
    assert data.context[0] == "daytime"
    assert data.context[-1] == "city"
    assert data.item_table["cost"].to_list() == ["4082"]


def test_cfm_rows_of_other_data_are_named_by_place_or_option(tmp_path):
    path = saved(tmp_path, "train.csv", "1-7,25\n2-8,26\n")
    assert read(path, "cfm").context == ("context_1",)
    assert read(path, "cfm", names=["last"]).context == ("last",)
    with pytest.raises(DataError, match="2 context names were given, but a row has 1"):
        read(path, "cfm", names=["a", "b"])
    with pytest.raises(DataError, match=r"row 2 of .* has 1 numbers"):
        read(saved(tmp_path, "b.csv", "1-7,25\n2,26\n"), "cfm")
    with pytest.raises(DataError, match=r"a row must be 'user-...,item-...'"):
        read(saved(tmp_path, "c.csv", "1-7,25,3\n"), "cfm")


def test_lightgcn_lines_are_one_event_per_item(tmp_path):
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"0 5 6 \n1\n2 5\n"))
    data = read(tmp_path / "train.txt", "lightgcn")
    assert data.frame().rows() == [(0, 5), (0, 6), (2, 5)]
    with pytest.raises(DataError, match=r"no line of the form 'user item item ...'"):
        read(saved(tmp_path, "bad.txt", "0\n1\n"), "lightgcn")


def test_libfm_rows_become_columns_by_group(tmp_path):
    path = saved(tmp_path, "a.libfm", "5 0:1 2:1 4:0.5 5:1 6:1\n1 1:1 3:1 5:1 # note\n")
    saved(tmp_path, "a.libfm.groups", "0\n0\n1\n1\n2\n3\n3\n")
    frame = read_frame(path, names=["user", "item", "age"])
    assert frame.to_dict(as_series=False) == {
        "user": [0, 1], "item": [2, 3], "age": [0.5, None], "group_3": [["5", "6"], ["5"]],
        "rating": [5.0, 1.0],
    }  # fmt: skip


def test_libfm_mistakes_are_named(tmp_path):
    path = saved(tmp_path, "a.libfm", "1 0:1 1:1\n")
    with pytest.raises(DataError, match=r"a\.libfm\.groups.*need groups='...'"):
        read(path)
    groups = saved(tmp_path, "g", "0\n")
    with pytest.raises(DataError, match="uses index 1, but the group file has only 1 lines"):
        read(path, groups=groups)
    groups = saved(tmp_path, "g", "0\nx\n")
    with pytest.raises(DataError, match="one group number per line"):
        read(path, groups=groups)
    groups = saved(tmp_path, "g", "0\n1\n2\n2\n")
    with pytest.raises(DataError, match="that is not 'index:value'"):
        read(saved(tmp_path, "b.libfm", "1 0:1 one:1\n"), groups=groups)
    with pytest.raises(DataError, match="does not start with a number"):
        read(saved(tmp_path, "b.libfm", "x 0:1 1:1\n"), groups=groups)
    with pytest.raises(DataError, match="different values in one row"):
        read(saved(tmp_path, "b.libfm", "1 0:1 1:1 2:.5 3:.2\n"), groups=groups)


def test_recbole_files_are_typed_by_their_headers(tmp_path):
    saved(tmp_path, "a.inter", "user_id:token\titem_id:token\trating:float\thour:token\n"
                               "1\tx\t4.5\t10\n2\ty\t3\t\n")  # fmt: skip
    saved(tmp_path, "a.item", "item_id:token\tgenre:token_seq\tshape:float_seq\n"
                              "x\tWar Drama\t1 2.5\n")  # fmt: skip
    data = read(tmp_path)
    assert data.frame().rows() == [(1, "x", 4.5, "10"), (2, "y", 3.0, None)]
    assert data.item_table.rows() == [(["War", "Drama"], [1.0, 2.5]), (None, None)]
    with pytest.raises(DataError, match="has values that are not numbers"):
        read(saved(tmp_path, "b.inter", "user_id:token\titem_id:token\tr:float\n1\tx\ty\n"))
    with pytest.raises(DataError, match=r"unknown type 'tokn'. Did you mean 'token'"):
        read(saved(tmp_path, "b.inter", "user_id:token\titem_id:tokn\n1\tx\n"))
    with pytest.raises(DataError, match=r"has 2 \.inter files"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no data set of a known format"):
        read(tmp_path / "empty")


def test_wraprec_columns_are_typed_by_option(tmp_path):
    path = saved(tmp_path, "a.csv", "u;i;r;hour;genres;price;home;junk\n"
                                    "1;2;5;10;War|Drama;3;1;x\n1;3;4;11;;;0;y\n")  # fmt: skip
    types = {"hour": "discrete", "genres": "multi-discrete", "price": "real", "home": "binary",
             "junk": "ignored"}  # fmt: skip
    data = read(path, "wraprec", types=types, user="u", item="i", rating="r")
    assert data.frame().rows() == [
        (1, 2, 5, "10", ["War", "Drama"], 3.0, True),
        (1, 3, 4, "11", None, None, False),
    ]
    with pytest.raises(DataError, match=r"column 'junk' .* is real but has 'x'"):
        read(path, "wraprec", types={"junk": "real"}, user="u", item="i")
    with pytest.raises(OptionError, match="Did you mean 'discrete'"):
        read(path, "wraprec", types={"junk": "discret"}, user="u", item="i")
    with pytest.raises(DataError, match=r"unknown column 'hours'. Did you mean 'hour'"):
        read(path, "wraprec", types={"hours": "real"}, user="u", item="i")


def test_the_files_of_neural_collaborative_filtering(tmp_path):
    path = saved(tmp_path, "a.test.rating", "0\t25\t5\t978\n")
    assert read(path).frame().rows() == [(0, 25, 5, 978)]
    negatives = read_negatives(saved(tmp_path, "a.test.negative", "(0,25)\t1\t2\n(1,3)\t4\t5\n"))
    assert negatives.columns == ["user", "item", "positive"]
    assert negatives.rows() == [(0, 1, 25), (0, 2, 25), (1, 4, 3), (1, 5, 3)]
    with pytest.raises(DataError, match=r"line 2 of .* has no negative items"):
        read_negatives(saved(tmp_path, "c.negative", "(0,25)\t1\t2\n(1,3)\n"))
    with pytest.raises(DataError, match=r"must be '\(user,item\)'"):
        read_negatives(saved(tmp_path, "b.negative", "0\t1\t2\n"))


def test_contents_tell_what_was_found(tmp_path):
    contents = read_contents(saved(tmp_path, "a.csv", "user,item\n1,2\n"), context=[])
    assert contents.events.rows() == [(1, 2)]
    assert contents.roles == {"context": []}


def test_a_group_number_of_a_trillion_is_a_name_and_no_size(tmp_path):
    path = saved(tmp_path, "a.libfm", "1 0:1 1:1 2:1\n1 0:1 1:1\n")
    saved(tmp_path, "a.libfm.groups", "0\n1\n1000000000000\n")
    assert read_frame(path).columns == ["user", "item", "group_1000000000000"]


@pytest.mark.parametrize("number", ["-1", "9223372036854775808", "1.5"])
def test_what_is_no_group_number_is_named_with_its_line(tmp_path, number):
    path = saved(tmp_path, "a.libfm", "1 0:1 1:1\n")
    saved(tmp_path, "a.libfm.groups", f"0\n{number}\n")
    with pytest.raises(DataError, match=rf"one group number per line, .*: line 2 is '{number}'"):
        read(path)


def test_groups_that_most_rows_lack_make_no_table(tmp_path):
    count = 4000
    rows = "".join(f"1 0:1 1:1 {2 + n % count}:1\n" for n in range(100_000))
    path = saved(tmp_path, "a.libfm", rows)
    saved(tmp_path, "a.libfm.groups", "0\n1\n" + "".join(f"{2 + n}\n" for n in range(count)))
    with pytest.raises(DataError, match=r"100,000 rows and 4,002 columns, more than 200 times"):
        read(path)


def test_movielens_with_text_for_a_genre_is_refused(tmp_path):
    saved(tmp_path, "u.data", "1\t1\t5\t9\n")
    saved(tmp_path, "u.user", "1|24|M|writer|85711\n")
    flags = "|".join("0" for _ in range(18))
    saved(tmp_path, "u.item", f"1|A (1999)|01-Jan-1999||x|{flags}|yes\n")
    with pytest.raises(DataError, match=r"column 'Western' of u\.item must hold whole numbers"):
        read(tmp_path)


def test_movielens_titles_of_digits_are_titles(tmp_path):
    saved(tmp_path, "ratings.dat", "1::1::5::9\n1::2::5::9\n")
    saved(tmp_path, "users.dat", "1::M::25::4::00123\n")
    saved(tmp_path, "movies.dat", "1::1984::1\n2::300::2\n")
    table = read(tmp_path, titles=True).all_item_columns
    assert table["title"].to_list() == ["1984", "300"]
    assert table["genres"].to_list() == [["1"], ["2"]]


def test_negatives_that_are_no_items_are_named_with_their_line(tmp_path):
    path = saved(tmp_path, "a.negative", "(0,25)\t1\t2\n(1,3)\tx\n")
    with pytest.raises(DataError, match=r"line 2 of .* has negative items that are not"):
        read_negatives(path)


def test_two_atomic_columns_of_one_name_are_refused(tmp_path):
    path = saved(tmp_path, "a.inter", "user_id:token\tuser_id:float\n1\t2\n")
    with pytest.raises(DataError, match=r"has two columns with one name: 'user_id'"):
        read(path)


def test_a_first_row_without_numbers_is_no_cfm(tmp_path):
    path = saved(tmp_path, "a.cfm", ",3-4\n1-2,3-4\n")
    with pytest.raises(DataError, match=r"the first row of .* must be 'user-\.\.\.,item-\.\.\.'"):
        read(path, "cfm")


def test_a_name_too_long_for_the_system_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*: File name too long"):
        read(tmp_path / ("x" * 5000))
