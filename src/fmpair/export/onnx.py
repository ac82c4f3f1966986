"""The ranking as an ONNX graph: query vectors in, ids and scores of the best items out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fmpair.bridges.requirement import Requirement
from fmpair.errors import OptionError
from fmpair.export.vectors import items_of
from fmpair.files import write_atomically
from fmpair.fitted.recommender import Recommender

ONNX = Requirement("onnx", "onnx", "onnx")
OPSET, FORMAT = 17, 8  # of 2022: what runtimes since then can read
MOST = (1 << 31) - 1  # bytes of a message of protocol buffers


def write_onnx(model: Recommender, path: str | Path) -> None:
    """A graph with inputs query [queries, factors + 1] and n [1], outputs items and scores.

    items: the ids themselves, whole numbers or texts [queries, n]; scores: float32 [queries, n].
    """
    onnx = ONNX.load()
    graph = _graph(onnx, *items_of(model))
    opset = [onnx.helper.make_opsetid("", OPSET)]
    made = onnx.helper.make_model(
        graph, opset_imports=opset, ir_version=FORMAT, producer_name="fmpair"
    )
    if made.ByteSize() > MOST:
        raise OptionError(
            f"{len(model.item_ids):,} items are more than the 2 GB that an ONNX file may hold: "
            "export to usearch or npz"
        )
    onnx.checker.check_model(made)
    write_atomically(path, made.SerializeToString())


def _graph(onnx: Any, ids: np.ndarray, vectors: np.ndarray) -> Any:
    """MatMul, TopK (ties go to the item that comes first, as in fmpair), Gather of the ids."""
    make, kinds = onnx.helper, onnx.TensorProto
    held = _held(ids)
    kind = kinds.STRING if held.dtype == object else make.np_dtype_to_tensor_dtype(held.dtype)
    count, width = vectors.shape
    nodes = [
        make.make_node("MatMul", ["query", "vectors"], ["every"]),
        make.make_node("Min", ["n", "count"], ["most"]),
        make.make_node("TopK", ["every", "most"], ["scores", "place"], axis=1),
        make.make_node("Gather", ["ids", "place"], ["items"]),
    ]
    return make.make_graph(
        nodes,
        "fmpair",
        [
            make.make_tensor_value_info("query", kinds.FLOAT, ["queries", width]),
            make.make_tensor_value_info("n", kinds.INT64, [1]),
        ],
        [
            make.make_tensor_value_info("items", kind, ["queries", "listed"]),
            make.make_tensor_value_info("scores", kinds.FLOAT, ["queries", "listed"]),
        ],
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(vectors.T), "vectors"),
            onnx.numpy_helper.from_array(held, "ids"),
            onnx.numpy_helper.from_array(np.array([count], np.int64), "count"),
        ],
    )


def _held(ids: np.ndarray) -> np.ndarray:
    """Ids as a graph holds them: numbers of 64 bits, or texts."""
    if not np.issubdtype(ids.dtype, np.integer):
        return ids.astype(object)
    return ids if ids.dtype == np.uint64 else ids.astype(np.int64)
