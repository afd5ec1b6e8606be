from pathlib import Path

import pytest
import yaml

from engine.config import EngineSettings, load_settings
from engine.tuning.choice import choose
from engine.tuning.findings import About
from engine.tuning.profile import profile_of
from engine.tuning.variants import find_variants
from tests.unit.engine.tuning.figures import ABOUT, findings

CONFIG = Path(__file__).parents[4] / "configs" / "cpu-smollm2.yaml"


def written(
    folder: Path, chosen: str = "suffix+head", **fields: object
) -> tuple[str, EngineSettings]:
    found = findings(chosen=chosen, **fields)
    settings = load_settings(CONFIG, environ={})
    about = About("smollm2-135m", "chat.jsonl", 7, "a processor", "2026-11-28", CONFIG)
    text = profile_of(settings, find_variants(settings, None), found, about)
    path = folder / "profile.yaml"
    path.write_text(text, encoding="utf-8")
    return text, load_settings(path, environ={})


@pytest.mark.parametrize("chosen", ["off", "suffix", "head", "suffix+head"])
def test_the_profile_loads_and_has_the_chosen_drafters(tmp_path: Path, chosen: str) -> None:
    _, loaded = written(tmp_path, chosen, rounds={})

    before = load_settings(CONFIG, environ={})
    assert "+".join(loaded.speculation.sources) == chosen.replace("off", "")
    assert (loaded.model, loaded.vllm, loaded.environment) == (
        before.model,
        before.vllm,
        before.environment,
    )
    assert loaded.speculation.max_draft_tokens == before.speculation.max_draft_tokens


def test_the_gateways_section_is_kept(tmp_path: Path) -> None:
    text, _ = written(tmp_path)

    before = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    assert yaml.safe_load(text)["gateway"] == before["gateway"]


def test_measured_costs_of_the_head_are_in_it_and_never_fall(tmp_path: Path) -> None:
    _, loaded = written(tmp_path)

    assert loaded.speculation.head.pass_cost == ((1, 0.1), (4, 0.1), (8, 0.2))


def test_comments_say_why_when_and_where(tmp_path: Path) -> None:
    text, _ = written(tmp_path)

    comments = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
    assert "# 2026-11-28, a processor" in comments
    assert "# smollm2-135m, 7 prompts of chat.jsonl, greedy" in comments
    assert any(
        line.startswith("#   suffix+head (this one): 60 with 1, 251 with 8") for line in comments
    )
    assert "# Tokens per second of all clients together, confirmed, rounds: 2:" in comments
    assert "# At concurrency 8 suffix is faster; this one reaches 0.962 of it." in comments


def test_a_name_with_a_line_break_stays_in_its_comment() -> None:
    settings = load_settings(None, environ={})
    about = About("smollm2-135m", "a\ngateway: {}", 1, "p", "2026-11-28", None)

    text = profile_of(settings, find_variants(settings, None), findings(), about)

    assert list(yaml.safe_load(text)) == ["engine"]


def test_what_was_only_simulated_says_so() -> None:
    settings = load_settings(None, environ={})
    found = findings(rounds={})

    text = profile_of(settings, find_variants(settings, None), found, ABOUT)

    assert "simulated, not confirmed" in text
    assert choose(found.judged, {}, found.order) == "suffix+head"
