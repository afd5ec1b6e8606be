"""What a request asks of its drafts, read from vLLM's `extra_args` (DESIGN, wire contract)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Control:
    """A request's wishes.

    Attributes:
        tenant: Whose finished answers it may draft from; those who name none share one.
        most: Most tokens of a draft; None for no limit of its own, 0 where `specgate_mode` is off.
        suffix, head, native: Whether that source may draft for it.
        prediction: Token ids that the answer is likely to repeat; may be empty.
        price: Survival at which its drafts are cut, whatever the gate says, and for which the head
            always runs: how benchmarks draft without the gate. None for the gate's.
        temperature: At which its text is sampled, at least 0; 0: greedily. What drafts are worth
            is learnt from requests like it.
    """

    tenant: str = "default"
    most: int | None = None
    suffix: bool = True
    head: bool = True
    native: bool = True
    prediction: tuple[int, ...] = ()
    price: float | None = None
    temperature: float = 0.0


def read_control(
    extra_args: Mapping[str, Any] | None,
    *,
    vocabulary: int,
    temperature: float = 0.0,
    plain: bool = False,
) -> Control:
    """Read `specgate_*`; whatever is missing or makes no sense is as if it were not there.

    The gateway answers 400 to a client's mistakes; here a request never fails for its drafts' sake.

    Args:
        extra_args: `SamplingParams.extra_args` of vLLM.
        vocabulary: Token ids are below it; a draft of others would end the engine.
        temperature: At which its text is sampled.
        plain: Whether it must have no drafts, whatever it says.
    """
    if not extra_args:
        return Control(most=0 if plain else None, temperature=temperature)
    mode = extra_args.get("specgate_mode", "auto")
    most = _count(extra_args.get("specgate_max_draft_tokens"))
    tenant = extra_args.get("specgate_tenant")
    return Control(
        tenant=tenant if isinstance(tenant, str) and tenant else Control.tenant,
        most=0 if plain or mode == "off" else most,
        suffix=mode != "head",
        head=mode != "suffix",
        native=mode not in ("suffix", "head"),
        prediction=_tokens(extra_args.get("specgate_prediction"), vocabulary),
        price=_chance(extra_args.get("specgate_price")),
        temperature=temperature,
    )


def _count(value: object) -> int | None:
    # Numbers of vllm_xargs may have become floats on their way.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return int(min(value, _MOST))


def _chance(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def _tokens(value: object, vocabulary: int) -> tuple[int, ...]:
    counts = [_count(item) for item in value] if isinstance(value, list) else []
    known = tuple(count for count in counts if count is not None and count < vocabulary)
    return known if len(known) == len(counts) else ()
