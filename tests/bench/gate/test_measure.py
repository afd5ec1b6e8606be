from tests.bench.gate.measure import turned
from tests.bench.gate.plan import FULL
from tests.bench.gate.settings import FIXED, settings_of


def test_each_fixed_setting_is_asked_first_in_some_round() -> None:
    settings = [setting for setting in settings_of(FULL) if setting.worker == FIXED]

    firsts = {turned(settings, number)[0].name for number in range(len(settings))}

    assert len(firsts) == len(settings)
