"""Buffalo's BPR: negatives are drawn again until unseen, so every event is an update."""

import tempfile
import time
from functools import lru_cache

from buffalo.algo.bpr import BPRMF
from buffalo.algo.options import BPRMFOption
from buffalo.data.mm import MatrixMarket, MatrixMarketOptions
from buffalo.misc import log
from events import matrix
from serve import serve

log.set_log_level(log.WARN)


class Timed(BPRMF):
    """BPRMF that notes the seconds of every epoch; save_best_only is what ends one."""

    def _iterate(self):
        self.began = time.perf_counter()
        super()._iterate()

    def save_best_only(self, loss, best_loss, number):
        self.seconds.append(time.perf_counter() - self.began)
        return best_loss


def train(folder, factors, threads, epochs):
    """Seconds and effective updates of each epoch."""
    options = BPRMFOption().get_default_option()
    options.update(
        d=factors, num_workers=threads, num_iters=epochs, lr=0.05, reg_u=0.01, reg_i=0.01,
        reg_j=0.01, reg_b=0.01, compute_loss_on_training=False, validation={},
    )  # fmt: skip
    model = Timed(options, data=_data(folder))
    model.seconds = []
    model.initialize()
    model.train()
    return {"seconds": model.seconds, "updates": [matrix(folder).nnz] * epochs}


@lru_cache(maxsize=1)
def _data(folder):
    options = MatrixMarketOptions().get_default_option()
    scratch = tempfile.mkdtemp()
    options.input.main = matrix(folder)
    options.data.validation = {}
    options.data.tmp_dir, options.data.path = scratch, f"{scratch}/events.h5py"
    data = MatrixMarket(options)
    data.create()
    return data


serve(train=train)
