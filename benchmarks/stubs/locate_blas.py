"""Buffalo's setup.py imports this module, but its source archive lacks it. BPR uses no BLAS.

All of Buffalo compiles for half an hour. So that its BPR is there within minutes, only what BPR
needs is built, and a source that several parts share is compiled once; the flags stay Buffalo's.
"""

import os
from distutils.unixccompiler import UnixCCompiler  # setuptools' own, under the name it builds with

from setuptools.command.build_ext import build_ext

blas_lib_name = None

NEEDED = ("buffalo.algo._bpr", "buffalo.misc._log", "buffalo.data.fileio", "buffalo.parallel._core")
compile_one, settle = UnixCCompiler._compile, build_ext.finalize_options


def compile_once(self, target, *rest):
    if not os.path.exists(target):
        compile_one(self, target, *rest)


def keep_needed(self):
    settle(self)
    self.extensions = [part for part in self.extensions if part.name in NEEDED]


UnixCCompiler._compile = compile_once
build_ext.finalize_options = keep_needed
