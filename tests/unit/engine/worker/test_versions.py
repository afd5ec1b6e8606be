import pytest

from engine.errors import UntestedVersionError
from engine.worker.versions import TESTED_VLLM_VERSIONS, check_version, find_version


@pytest.mark.parametrize("found", ["0.32.0", "0.32.0+cpu", "0.33.0"])
def test_a_tested_version_passes(found: str) -> None:
    assert check_version(found) == found


@pytest.mark.parametrize("found", ["0.31.0", "0.32.1", "0.32.0rc1", "0.34.0+cpu"])
def test_an_untested_version_is_rejected_and_the_tested_ones_are_named(found: str) -> None:
    with pytest.raises(UntestedVersionError, match=r"not tested.*tested: 0\.32\.0, 0\.33\.0"):
        check_version(found)


def test_a_missing_vllm_says_how_to_install_it() -> None:
    with pytest.raises(UntestedVersionError, match=r"specgate\[cpu\]"):
        check_version(None)


def test_the_installed_vllm_is_tested() -> None:
    assert find_version() in TESTED_VLLM_VERSIONS
