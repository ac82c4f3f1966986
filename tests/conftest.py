"""Laws hold on slow and busy machines too, and are tried on the same examples everywhere.

`HYPOTHESIS_PROFILE=search` draws new examples on every run.
"""

import os

from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
