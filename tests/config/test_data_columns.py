import gzip

import pytest

from fmpair.config.data_columns import header_of
from fmpair.config.experiment import Source, Step
from fmpair.config.read import validate
from fmpair.data import public_sets
from fmpair.data.write import write
from fmpair.errors import ConfigError, DataError
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


LOG = "user,item,time,event\n" + "".join(
    f"u{n % 5},i{n % 7},2024-03-{1 + n % 28:02d} 10:00:00,{('view', 'cart', 'buy')[n % 3]}\n"
    for n in range(60)
)
REFUND = "u1,i1,2024-03-01 11:00:00,refund\n"


def mistakes_of(tmp_path, options, log=LOG):
    """The lines that validate reports, without the name of the file."""
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "a.yaml").write_text(f"data: {{path: log.csv, {options}}}\nmodels: [popularity]\n")
    try:
        validate(tmp_path / "a.yaml")
    except ConfigError as error:
        return [line.partition("data.")[2] for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("merge_repeats: -3", "merge_repeats: merge_repeats must be minutes above 0, not -3"),
        (
            "event_weights: {view: -1, cart: 1, buy: 1}",
            "event_weights: event_weights must be 0 or more, not -1 for 'view'",
        ),
        (
            "event_weights: {view: 1, carts: 3, buy: 5}",
            "event_weights: event_weights has no weight for cart (no event has type 'carts'): give "
            "every event type a weight, 0 to ignore it",
        ),
        (
            "merge_repeats: 30, ignore: [time]",
            "merge_repeats: merge_repeats needs a timestamp: name its column with data.timestamp",
        ),
    ],
)
def test_what_a_run_would_refuse_of_the_data_is_found_by_validate(tmp_path, options, said):
    assert mistakes_of(tmp_path, options) == [said]


def test_refunds_need_no_weight_unless_they_are_kept(tmp_path):
    weights = "event_weights: {view: 1, cart: 3, buy: 5}"
    assert mistakes_of(tmp_path, weights, LOG + REFUND) == []
    [said] = mistakes_of(tmp_path, f"{weights}, refunds: keep", LOG + REFUND)
    assert "has no weight for refund" in said
