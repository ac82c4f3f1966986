"""`export`: from a model file to a file for other programs."""

import numpy as np

from fmpair import load


def test_a_model_file_becomes_arrays(fmpair, model, tmp_path):
    target = tmp_path / "vectors"
    result = fmpair("export", model, "--to", "npz", "-o", target)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith(f"wrote {target} (") and "with 20 items" in result.err
    with np.load(target) as file:
        items = file["item_vectors"]
    np.testing.assert_array_equal(items[:, :-1], load(model).item_vectors)


def test_mistakes_are_told_in_flags(fmpair, model, tmp_path):
    result = fmpair("export", model, "-o", tmp_path / "vectors")
    assert result.code == 1
    assert "give --to, one of npz, onnx, usearch" in result.err
    result = fmpair("export", model, "--to", "pickle", "-o", tmp_path / "vectors")
    assert result.code == 1 and "--to must be one of npz, onnx, usearch" in result.err
