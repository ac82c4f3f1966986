"""Fits to Parquet parts on a device of PyTorch: the same model as of one frame."""

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from fmpair import FMPair, arrays, device_columns  # noqa: E402
from fmpair.data.synthetic import make  # noqa: E402
from fmpair.errors import DataError, OptionError  # noqa: E402
from fmpair.training import device_parts, fit_parts  # noqa: E402

RECIPE = FMPair(factors=8, epochs=2, history=0, order=2, times=False, device="torch")


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
    with pytest.raises(OptionError, match="on and device='torch' exclude each other"):
        fit_parts(RECIPE, folder, on="ray")
    with pytest.raises(OptionError, match="need device='cuda'"):
        fit_parts(FMPair(), folder, context=["hour"])


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
