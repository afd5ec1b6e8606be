import pytest

from engine.errors import ConfigError, EngineError, ModelError, UntestedVersionError


@pytest.mark.parametrize("family", [ConfigError, ModelError, UntestedVersionError])
def test_every_error_belongs_to_one_family(family: type[Exception]) -> None:
    assert issubclass(family, EngineError)


def test_config_error_reads_as_one_line_for_each_problem() -> None:
    error = ConfigError(["engine.port: wrong", "engine.uds: wrong"])

    assert str(error).splitlines() == ["engine.port: wrong", "engine.uds: wrong"]
