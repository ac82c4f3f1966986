import gzip

import pytest

from fmpair.config.data_columns import header_of
from fmpair.config.experiment import Source, Step
from fmpair.data import public_sets
from fmpair.data.write import write
from fmpair.errors import DataError
from fmpair.experiment.prepared import prepare
from fmpair.testing import shop_log

WORLD = Source(generate={"users": 20, "items": 10, "events": 200})


def columns(data):
    return data.context, tuple(data.user_table.columns), tuple(data.item_table.columns)


@pytest.mark.parametrize(
    "filters",
    [
        [],
        [Step("merge_duplicates")],
        [Step("merge_duplicates", {"context": False})],
        [Step("leaked", {"column": "genre"})],
        [Step("enlarged", {"events": 500, "contexts": 2})],
        [Step("merge_duplicates", {"context": False}), Step("leaked", {"column": "tags"})],
    ],
)
def test_the_header_tells_the_columns_that_the_filters_leave(filters):
    header = header_of(WORLD, filters)
    data = prepare(WORLD, filters, Step("holdout")).data
    assert (header.context, header.users, header.items) == columns(data)
    assert set(data.columns.columns) - {"weight"} == set(header.events)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["ml-100k", "frappe-cfm", "depaul-movie"])
def test_the_header_of_a_public_set_has_the_columns_of_its_events(name):
    header = header_of(Source(set=name))
    assert (header.context, header.users, header.items) == columns(public_sets.load(name))


def test_packed_events_that_are_damaged_are_named(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"user,item\na,b\n" * 99)[:40])
    with pytest.raises(DataError, match=r"cannot read .*a\.csv\.gz: Compressed file ended"):
        header_of(Source(path=str(tmp_path / "a.csv.gz")))


@pytest.mark.parametrize("name", ["shop.csv", "shop.parquet"])
def test_times_sessions_and_kinds_of_events_are_known_by_the_first_rows(tmp_path, name):
    log = shop_log(60, 60, 2_000)
    write(log, tmp_path / name)
    header = header_of(Source(path=str(tmp_path / name)))
    assert {"timestamp", "session", "event_type"} <= set(header.events)
    assert {"device", "daytime"} <= set(header.context)
    assert not {"event_time", "session_id", "event_type"} & set(header.context)
