import pytest

from tests.unit.engine.drafting.scripted import Scripted


@pytest.fixture
def source() -> Scripted:
    return Scripted()
