"""The CPU engine: compiled kernels; the cells of a round run in parallel on threads.

Reading order: `engine.contract` defines the interface and `strata.partition` the plan.
`cpu_training` implements the interface, `epoch` runs the rounds on threads, `rounds` is the
compiled loop of a thread over its cells, and `worker` makes the arguments of cells. A cell is
learned by the kernel of `pairs` (plain BPR) or of `lists` (all other losses and samplers). Both use
the row operations of `simd`; `lists` also uses `losses`, `sides`, `optimizer`, `triples` and
`folded_items`.
"""

from fmpair.jit import require_compiler

require_compiler()  # a clearer error than that of the import below

from fmpair.engine.cpu.cpu_training import begin  # noqa: E402

__all__ = ["begin"]
