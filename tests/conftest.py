"""Laws hold on slow and busy machines too: no deadline for one example."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
