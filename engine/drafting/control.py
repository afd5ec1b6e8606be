"""What a request asks of its drafts, read from vLLM's `SamplingParams.extra_args`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Control:
    """What a request asks for.

    Attributes:
        tenant: Whose finished answers it may draft from. Requests without one share a tenant.
        most: Longest draft, in tokens; None: no limit of its own, 0: no drafts.
        suffix, head, native: Whether this source may draft for it.
        prediction: Token ids that the answer is likely to repeat; may be empty.
        price: Fixed survival below which its drafts are cut, instead of the gate's price. The head
            always runs for it. Benchmarks use it to draft without the gate. None: the gate's price.
        temperature: Of sampling, >= 0; 0: greedy. The value of drafts is learnt from requests of
            similar temperature.
        adapt: Whether its tenant agreed that heads learn from it (docs/heads.md).
        indexed: Whether the suffix index takes in its text, and so may draft for it.
    """

    tenant: str = "default"
    most: int | None = None
    suffix: bool = True
    head: bool = True
    native: bool = True
    prediction: tuple[int, ...] = ()
    price: float | None = None
    temperature: float = 0.0
    adapt: bool = False
    indexed: bool = True


def read_control(
    extra_args: Mapping[str, Any] | None,
    *,
    vocabulary: int,
    temperature: float = 0.0,
    plain: bool = False,
) -> Control:
    """Read the `specgate_*` arguments. Missing and invalid ones are ignored.

    The gateway rejects a client's mistakes with 400. Here a request never fails because of its
    drafts.

    Args:
        extra_args: `SamplingParams.extra_args` of vLLM.
        vocabulary: Size of the vocabulary. A draft with a higher token id would crash the engine.
        temperature: Of sampling; 0: greedy.
        plain: Whether to forbid drafts, whatever the request asks for.
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
        adapt=extra_args.get("specgate_adapt") in (1, True),
        indexed=extra_args.get("specgate_indexed") not in (0, False),
    )


def _count(value: object) -> int | None:
    # vLLM may have parsed numbers of vllm_xargs as floats.
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
