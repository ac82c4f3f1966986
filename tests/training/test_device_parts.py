"""Fits to Parquet parts on a device of PyTorch: the same model as of one frame."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from fmpair import Dataset, FMPair, arrays, device_columns  # noqa: E402
from fmpair.data.synthetic import make  # noqa: E402
from fmpair.errors import DataError, OptionError  # noqa: E402
from fmpair.training import device_parts, fit_parts  # noqa: E402

# parts are too large for trials
RECIPE = FMPair(
    factors=8, epochs=2, history=0, order=2, times=False, regularization=0.1, device="torch"
)


def events_of(kind="text"):
    frame = make(users=60, items=40, events=1500, seed=1).data.frame().select("user", "item")
    number = np.arange(len(frame))
    frame = frame.with_columns(
        hour=pl.Series(number * 7 % 24),
        place=pl.Series(number % 3).replace_strict({0: "a", 1: "b", 2: "c"}),
    )
    if kind == "text":
        return frame
    codes = frame.with_columns(pl.col("user", "item").rank("dense").cast(pl.Int32) * 5 - 17)
    return codes if kind == "whole" else codes.with_columns(pl.col("user") * 2**40)


def written(frame, folder):
    for number in range(3):
        frame[number * 600 : (number + 1) * 600].write_parquet(folder / f"{number}.parquet")
    return folder


def bytes_of(model):
    return b"".join(np.ascontiguousarray(a).tobytes() for _, a in sorted(model.arrays().items()))


@pytest.mark.parametrize("kind", ["text", "whole", "sparse"])
def test_parts_give_the_model_of_one_frame(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(device_parts, "ROWS", 500)
    monkeypatch.setattr(arrays, "LONG", 1)
    frame = events_of(kind)
    whole = RECIPE.fit(frame)
    model = fit_parts(RECIPE, written(frame, tmp_path), context=["hour", "place"])
    assert model.space.users.ids.equals(whole.space.users.ids)
    assert bytes_of(model) == bytes_of(whole)
    assert model.recommend(frame["user"][0], context={"hour": 3}).equals(
        whole.recommend(frame["user"][0], context={"hour": 3})
    )


def tables_of(frame):
    """What is known of users and items, some of which have no events."""
    users, items = (frame[name].unique().sort() for name in ("user", "item"))
    users, items = pl.concat([users, pl.Series(["nobody"])]), pl.concat([pl.Series(["new"]), items])
    groups = pl.Series("group", np.arange(len(users)) % 4).cast(pl.String)
    tags = [[f"t{n % 7}", f"t{n % 5 + 10}"] for n in range(len(items))]
    titles = pl.Series("title", [f"The story of number {n} {n * n}" for n in range(len(items))])
    prices = pl.Series("price", np.arange(len(items)) * 0.5)
    return (
        pl.DataFrame({"user": users, "group": groups}),
        pl.DataFrame({"item": items, "tags": tags, "title": titles, "price": prices}),
    )


def test_tables_of_users_and_items_are_learned_from_as_in_one_frame(tmp_path, monkeypatch):
    monkeypatch.setattr(device_parts, "ROWS", 500)
    frame = events_of()
    users, items = tables_of(frame)
    whole = RECIPE.fit(Dataset.from_frame(frame, users=users, items=items))
    folder = written(frame, tmp_path)
    model = fit_parts(RECIPE, folder, context=["hour", "place"], users=users, items=items)
    assert {e.name for e in model.space.item.encoders} == {"tags", "price"}
    assert "new" in model.space.items.ids and "title" in model.catalogue.columns
    assert bytes_of(model) == bytes_of(whole)


def test_events_of_parts_have_their_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(device_parts, "ROWS", 500)
    frame = events_of().select("user", "item")
    frame = frame.with_columns(weight=pl.Series(np.arange(len(frame)) % 5 + 0.25))
    folder = written(frame, tmp_path)
    model, plain = fit_parts(RECIPE, folder, weight="weight"), fit_parts(RECIPE, folder)
    assert bytes_of(model) == bytes_of(RECIPE.fit(frame))
    assert bytes_of(model) != bytes_of(plain)


@pytest.mark.parametrize("at_once", [1 << 27, 300])
@pytest.mark.parametrize("kind", ["numbers", "dates", "text"])
def test_histories_of_parts_are_those_of_one_frame(at_once, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(device_parts, "ROWS", 500)
    monkeypatch.setattr(arrays, "LONG", 1)
    monkeypatch.setattr(device_columns, "AT_ONCE", at_once)
    frame = events_of().select("user", "item")
    times = np.random.default_rng(0).permutation(len(frame)) // 3 * 3600 + 1_700_000_000
    moments = pl.Series("timestamp", times)
    if kind != "numbers":
        moments = pl.from_epoch(moments)
        moments = moments if kind == "dates" else moments.dt.to_string("%Y-%m-%d %H:%M:%S")
    frame = frame.with_columns(moments)
    recipe = FMPair(
        factors=8, epochs=2, history={"last": 4, "fade": 0.5}, order=2, times=False, device="torch"
    )
    model = fit_parts(recipe, written(frame, tmp_path), timestamp="timestamp")
    whole = recipe.fit(frame)
    assert model.space.history is not None
    assert bytes_of(model) == bytes_of(whole)
    user = frame["user"][0]
    assert model.recommend(user).equals(whole.recommend(user))


def test_a_checkpoint_of_other_tables_is_refused(tmp_path):
    frame, file = events_of(), tmp_path / "fit.part"
    users, items = tables_of(frame)
    folder = written(frame, tmp_path)

    def stop(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_parts(RECIPE, folder, items=items, progress=stop, checkpoint=file)
    for other in ({}, {"items": items.drop("price")}, {"items": items, "users": users}):
        with pytest.raises(DataError, match="is a checkpoint of other data"):
            fit_parts(RECIPE, folder, checkpoint=file, **other)
    model = fit_parts(RECIPE, folder, items=items, checkpoint=file)
    assert bytes_of(model) == bytes_of(fit_parts(RECIPE, folder, items=items))


def test_seen_items_may_be_left_out(tmp_path):
    folder = written(events_of(), tmp_path)
    model, whole = (fit_parts(RECIPE, folder, seen=seen) for seen in (False, True))
    assert not len(model.seen.column)
    assert model.parameters.items.tobytes() == whole.parameters.items.tobytes()


def test_a_fit_to_parts_continues_from_its_checkpoint(tmp_path):
    folder, file = written(events_of(), tmp_path), tmp_path / "fit.part"
    whole = fit_parts(RECIPE, folder)

    def stop(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_parts(RECIPE, folder, progress=stop, checkpoint=file)
    assert file.exists()
    shown = []
    model = fit_parts(RECIPE, folder, progress=shown.append, checkpoint=file)
    assert [epoch.number for epoch in shown] == [2] and not file.exists()
    assert bytes_of(model) == bytes_of(whole)


def test_what_parts_cannot_have_is_said(tmp_path):
    frame = events_of().with_columns(price=pl.lit(2.5))
    folder = written(frame, tmp_path)
    with pytest.raises(OptionError, match=r"context of parts must be text.*'price' holds Float64"):
        fit_parts(RECIPE, folder, context=["price"])
    with pytest.raises(DataError, match="has no column 'weather'"):
        fit_parts(RECIPE, folder, context=["weather"])
    with pytest.raises(OptionError, match="on and device='torch' cannot be combined"):
        fit_parts(RECIPE, folder, on="ray")
    with pytest.raises(OptionError, match="need device='cuda'"):
        fit_parts(FMPair(), folder, context=["hour"])
    with pytest.raises(OptionError, match="need device='cuda'"):
        fit_parts(FMPair(), folder, items=tables_of(frame)[1])
    with pytest.raises(OptionError, match="history of parts needs timestamp="):
        fit_parts(replace(RECIPE, history=5), folder)
    with pytest.raises(OptionError, match="timestamp of parts is for histories"):
        fit_parts(RECIPE, folder, timestamp="hour")
    with pytest.raises(OptionError, match="per of history is not supported with parts"):
        fit_parts(replace(RECIPE, history={"last": 5, "per": "session"}), folder, timestamp="hour")
    with pytest.raises(DataError, match="'place' is the weight but holds String"):
        fit_parts(RECIPE, folder, weight="place")
    with pytest.raises(DataError, match="'place' describes the item"):
        fit_parts(
            RECIPE, folder, context=["place"], items=frame.select("item", "place").unique("item")
        )


def test_dates_of_items_are_refused_where_events_have_times(tmp_path):
    frame = events_of().with_columns(timestamp=pl.arange(1500) * 3600 + 1_700_000_000)
    items = frame.select("item").unique(maintain_order=True)
    items = items.with_columns(released=pl.date(2020, 1, 1) + pl.duration(days=pl.int_range(40)))
    with pytest.raises(OptionError, match=r"the age of items .* is not supported with parts"):
        fit_parts(
            replace(RECIPE, history=3), written(frame, tmp_path), timestamp="timestamp", items=items
        )


def test_long_columns_are_counted_and_sorted_on_a_device_as_without(monkeypatch):
    rng = np.random.default_rng(0)
    owner, index = (rng.integers(0, n, 5000).astype(np.int32) for n in (50, 30))
    weight = rng.integers(1, 5, 5000).astype(np.float32)
    monkeypatch.setattr(arrays, "LONG", 1)

    def found():
        pairs = arrays.distinct_pairs(owner, index, 55)
        return [arrays.tally(owner, 60), arrays.tally(owner, 60, weight), *pairs,
                arrays.tally(owner, 60, weight / 3), arrays.order_by(owner, index),
                arrays.latest_true(index < 3), arrays.multiples(owner, 7)]  # fmt: skip

    plain = found()
    for at_once in (1 << 20, 300):
        monkeypatch.setattr(device_columns, "AT_ONCE", at_once)
        with device_columns.layout_on("cpu"):
            for wanted, got in zip(plain, found()):
                assert got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted)
