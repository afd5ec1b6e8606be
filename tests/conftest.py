"""Hypothesis without its deadline: how long an example takes says nothing on a busy machine."""

from hypothesis import settings

settings.register_profile("specgate", deadline=None)
settings.load_profile("specgate")
