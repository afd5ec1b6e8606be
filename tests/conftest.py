"""Hypothesis without its deadline: how long an example takes says nothing on a busy machine."""

from hypothesis import settings

from engine.processor import describe_processor

settings.register_profile("specgate", deadline=None)
settings.load_profile("specgate")


def pytest_report_header() -> str:
    """Say on what the tests run: each kernel that this processor supports is tested."""
    return f"processor: {describe_processor()}"
