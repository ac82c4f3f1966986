"""A kernel learns the same in the process that compiles it as where it is found on disk."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib
import numpy as np
from fmpair import Dataset, FMPair

rng = np.random.default_rng(0)
events = {"user": rng.integers(0, 60, 900), "item": rng.integers(0, 40, 900),
          "place": rng.integers(0, 4, 900).astype(str)}
genres = {"item": np.arange(40), "genre": (np.arange(40) % 7).astype(str)}
data = Dataset.from_frame(events, items=genres)
model = FMPair(factors=8, epochs=2, optimizer="adagrad", n_negatives=4, blocks=1).fit(data)
print(hashlib.sha256(b"".join(table.tobytes() for table in model.parameters)).hexdigest())
"""


@pytest.mark.slow
def test_adagrad_gives_the_same_bits_where_its_kernel_is_compiled_and_where_it_is_found(tmp_path):
    environment = {**os.environ, "FMPAIR_CACHE": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True,
                       text=True, check=True).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert len(found[0]) == 65 and found[0] == found[1]
