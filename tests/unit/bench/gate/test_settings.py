from bench.gate.plan import FULL, MOST_CLIENTS
from bench.gate.settings import FIXED, seated, settings_of, workers_of
from engine.config import EngineSettings


def test_every_setting_has_a_worker() -> None:
    workers = {worker.name: worker for worker in workers_of(EngineSettings())}

    assert {setting.worker for setting in settings_of(FULL)} == workers.keys()
    assert not workers["none"].is_ours
    assert workers["gate"].speculation == workers["fixed"].speculation


def test_fixed_settings_draft_so_many_tokens_whatever_they_are_worth() -> None:
    fixed = [setting for setting in settings_of(FULL) if setting.worker == FIXED]

    assert [setting.extra["specgate_max_draft_tokens"] for setting in fixed] == [1, 2, 4, 8, 16]
    assert {setting.extra["specgate_price"] for setting in fixed} == {0.0}


def test_there_is_a_seat_for_every_client_and_else_the_profile_stays() -> None:
    profile = EngineSettings.model_validate({"vllm": {"max_num_seqs": 4, "dtype": "float32"}})

    assert seated(profile).vllm == {"max_num_seqs": MOST_CLIENTS, "dtype": "float32"}
