"""Dense products on a device are those of one thread, and the same in every run."""

import numpy as np
import pytest

from fmpair import arrays, matrices

pytest.importorskip("torch")

from fmpair import device_columns

ROWS, WIDTH, TARGETS = 60, 7, 5
RNG = np.random.default_rng(0)
LEFT = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
RIGHT = RNG.normal(size=(WIDTH, TARGETS)).astype(np.float32)
TALL = RNG.normal(size=(ROWS, TARGETS)).astype(np.float32)
SQUARE = RIGHT.T @ RIGHT + np.eye(TARGETS, dtype=np.float32)

PRODUCTS = {
    "of two": lambda: matrices.product(LEFT, RIGHT),
    "of two, the left one kept": lambda: matrices.product(LEFT, RIGHT, keep=True),
    "transposed": lambda: matrices.product(LEFT, TALL, transposed=True, keep=True),
    "with itself": lambda: matrices.product(LEFT, LEFT, transposed=True),
    "with itself, kept": lambda: matrices.product(LEFT, LEFT, transposed=True, keep=True),
    "of squares": lambda: matrices.product_of_squares(LEFT, RIGHT),
    "solved": lambda: matrices.solved(SQUARE, TALL),
}
WANTED = {
    "of two": LEFT @ RIGHT,
    "of two, the left one kept": LEFT @ RIGHT,
    "transposed": LEFT.T @ TALL,
    "with itself": LEFT.T @ LEFT,
    "with itself, kept": LEFT.T @ LEFT,
    "of squares": LEFT**2 @ RIGHT,
    "solved": TALL @ np.linalg.inv(SQUARE),
}


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("at_once", [20 * WIDTH, 1 << 20])
def test_products_on_a_device_equal_those_of_a_thread(name, at_once, monkeypatch):
    monkeypatch.setattr(device_columns, "AT_ONCE", at_once)
    monkeypatch.setattr(matrices, "LARGE", 1)
    plain = PRODUCTS[name]()
    with device_columns.layout_on("cpu"):
        found, again = PRODUCTS[name](), PRODUCTS[name]()
    assert np.allclose(plain, WANTED[name], atol=1e-4)
    assert np.allclose(found, WANTED[name], atol=1e-4)
    assert found.dtype == np.float32 and found.flags.c_contiguous
    assert found.tobytes() == again.tobytes()


def test_only_large_products_are_sent_to_a_device(monkeypatch):
    sent = []
    with device_columns.layout_on("cpu"):
        device = arrays.columns_device()
        monkeypatch.setattr(device, "product", lambda *args: sent.append(args))
        matrices.product(LEFT, RIGHT)
        assert not sent
        monkeypatch.setattr(matrices, "LARGE", LEFT.size * TARGETS)
        matrices.product(LEFT, RIGHT)
    assert len(sent) == 1


def test_a_product_that_is_kept_copies_its_left_side_once(monkeypatch):
    monkeypatch.setattr(matrices, "LARGE", 1)
    with device_columns.layout_on("cpu"):
        device, kept = arrays.columns_device(), []
        keep = device.keep
        monkeypatch.setattr(device, "keep", lambda *a: (kept.append(a[0]), keep(*a)))
        matrices.product(LEFT, RIGHT, keep=True)
        matrices.product(LEFT, TALL, transposed=True, keep=True)
        matrices.product(TALL, SQUARE)
    assert len(kept) == 1 and kept[0] is LEFT
