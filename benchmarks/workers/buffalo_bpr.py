"""Buffalo's BPR: negatives are drawn again until unseen, so every event is an update."""

# ruff: noqa: E402, since the package must be replaced before its parts are imported

import sys
import time
from functools import lru_cache
from importlib.util import find_spec, module_from_spec

# The package itself imports all of Buffalo, of which a build from source has only BPR (see stubs).
sys.modules["buffalo"] = module_from_spec(find_spec("buffalo"))

from buffalo.algo.bpr import BPRMF
from buffalo.algo.options import BPRMFOption
from buffalo.data.mm import MatrixMarket, MatrixMarketOptions
from buffalo.misc import log
from events import matrix
from serve import serve

log.set_log_level(log.WARN)


def train(folder, factors, threads, epochs):
    """Seconds and effective updates of each epoch.

    Buffalo waits for the end of an epoch in naps of a tenth of a second, so a clock on the wall
    would do it wrong. Counted are the seconds of all its threads, as if shared evenly among them.
    """
    options = BPRMFOption().get_default_option()
    options.update(
        d=factors, num_workers=threads, num_iters=epochs, lr=0.05, reg_u=0.01, reg_i=0.01,
        reg_j=0.01, reg_b=0.01, compute_loss_on_training=False, validation={},
    )  # fmt: skip
    model = BPRMF(options, data=_data(folder))
    model.initialize()
    began = time.process_time()
    model.train()
    each = (time.process_time() - began) / threads / epochs
    return {"seconds": [each] * epochs, "updates": [matrix(folder).nnz] * epochs}


@lru_cache(maxsize=1)
def _data(folder):
    options = MatrixMarketOptions().get_default_option()
    options.input.main = matrix(folder)
    options.data.validation = {}
    options.data.tmp_dir, options.data.path = folder, f"{folder}/events.h5py"
    data = MatrixMarket(options)
    data.create()
    return data


serve(train=train)
