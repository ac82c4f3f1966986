"""Buffalo's setup.py imports this module, but its source archive lacks it. BPR uses no BLAS."""

blas_lib_name = None
