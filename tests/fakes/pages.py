"""The endpoints beside generation: health, load, metrics, models, version, tokens.

A token of the fake is one UTF-8 byte, so that text and tokens convert both ways without a model.
"""

import json
from collections.abc import Callable

from tests.fakes.reply import JsonDict
from tests.fakes.state import WorkerState

VERSION = "0.32.0"
_CREATED = 1_790_000_000

Page = Callable[[WorkerState, bytes], JsonDict]


def models(state: WorkerState, _body: bytes) -> JsonDict:
    """`GET /v1/models`."""
    cards: list[JsonDict] = [
        {
            "id": name,
            "object": "model",
            "created": _CREATED,
            "owned_by": "vllm",
            "root": name,
            "parent": None,
            "max_model_len": state.max_model_len,
            "permission": [],
        }
        for name in state.models
    ]
    return {"object": "list", "data": cards}


def version(_state: WorkerState, _body: bytes) -> JsonDict:
    """`GET /version`."""
    return {"version": VERSION}


def load(state: WorkerState, _body: bytes) -> JsonDict:
    """`GET /load`."""
    return {"server_load": state.active}


def tokenize(state: WorkerState, body: bytes) -> JsonDict:
    """`POST /tokenize`, of a prompt or of messages."""
    request = json.loads(body)
    text = request.get("prompt")
    if text is None:
        text = "".join(str(message["content"]) for message in request["messages"])
    tokens = list(text.encode())
    return {
        "count": len(tokens),
        "max_model_len": state.max_model_len,
        "tokens": tokens,
        "token_strs": None,
    }


def detokenize(_state: WorkerState, body: bytes) -> JsonDict:
    """`POST /detokenize`."""
    return {"prompt": bytes(json.loads(body)["tokens"]).decode(errors="replace")}


def speculation(state: WorkerState, _body: bytes) -> JsonDict:
    """`GET /speculation`, which our engine adds."""
    counts = state.counters
    gate = {
        "open": True, "price": 0.25, "trust": 1.0, "goodput_tokens_per_second": 64.1,
        "measured_over_expected": 1.01, "step_cost_ms": [[1, 15.6], [2, 16.0]],
        "pass_cost_ms": None, "verification_cost_ms": [[1, 0.8]],
        "recent_decisions": {"drafted": 5, "priced_out": 1}, "steps": {},
    }  # fmt: skip
    acceptance = {
        "suffix": {
            "drafted": 10 + counts.drafted_tokens,
            "accepted": 6 + counts.accepted_tokens,
        }
    }
    sources = [
        {
            "name": "suffix", "state": "drafting", "verdict": "Drafts: 60 % were accepted.",
            "drafted_per_second": 5.0, "acceptance": 0.6,
        },
        {
            "name": "head", "state": "priced_out", "verdict": "Does not draft: it costs too much.",
            "drafted_per_second": 0.0, "acceptance": None,
        },
    ]  # fmt: skip
    serving = {"version": "0a1b2c3d4e5f", "name": "shipped", "max_draft_tokens": 3}
    beside = None
    if state.head_commands:
        beside = {
            **serving, "version": "f0e1d2c3b4a5", "name": "new", "role": "challenger",
            "pairs": 256, "most_pairs": 1280, "worth": 0.0834,
        }  # fmt: skip
    changes: list[JsonDict] = [
        {
            "id": str(number),
            "action": command["action"],
            "by": command["by"],
            "name": "new",
            "version": "f0e1d2c3b4a5",
            "state": state.head_outcome,
            "why": "so it is",
        }
        for number, command in enumerate(state.head_commands, start=1)
    ]
    heads: JsonDict = {"serving": serving, "beside": beside, "changes": changes}
    engine = {
        "engine": 0, "gate": gate, "acceptance": acceptance, "heads": heads, "sources": sources,
    }  # fmt: skip
    if state.dtype is not None:
        engine["exactness"] = {"dtype": state.dtype}
    return {"engines": [engine]}


def heads(state: WorkerState, body: bytes) -> JsonDict:
    """`POST /heads`, which our engine adds."""
    state.head_commands.append(json.loads(body))
    return {"id": str(len(state.head_commands))}


JSON_PAGES: dict[tuple[str, str], Page] = {
    ("GET", "/v1/models"): models,
    ("GET", "/version"): version,
    ("GET", "/load"): load,
    ("GET", "/speculation"): speculation,
    ("POST", "/heads"): heads,
    ("POST", "/tokenize"): tokenize,
    ("POST", "/detokenize"): detokenize,
}


def metrics_text(state: WorkerState) -> bytes:
    """`GET /metrics`: the part of vLLM's that says whether the engine works.

    An engine that has requests keeps stepping also when none of them yields a token yet, so a
    look at the counter moves it, unless the worker is stalled or its engine has nothing to do.
    """
    counters = state.counters
    if state.active and not (state.stall or state.engine_idle):
        counters.iterations += 1
    names = f'engine="0",model_name="{state.models[0]}"'
    lines: list[str] = []

    def add(name: str, kind: str, value: float, *, suffix: str = "", labels: str = "") -> None:
        lines.extend([f"# HELP vllm:{name} {name}.", f"# TYPE vllm:{name} {kind}"])
        lines.append(f"vllm:{name}{suffix}{{{names}{labels}}} {float(value)}")

    add("num_requests_running", "gauge", state.active)
    add("num_requests_waiting", "gauge", 0)
    add("kv_cache_usage_perc", "gauge", 0.0)
    add("prompt_tokens_total", "counter", counters.prompt_tokens)
    add("generation_tokens_total", "counter", counters.generation_tokens)
    add("spec_decode_num_draft_tokens_total", "counter", counters.drafted_tokens)
    add("spec_decode_num_accepted_tokens_total", "counter", counters.accepted_tokens)
    lines.append("# TYPE vllm:request_success_total counter")
    for reason, value in (("stop", counters.finished), ("abort", counters.aborted)):
        labels = f'engine="0",finished_reason="{reason}",model_name="{state.models[0]}"'
        lines.append(f"vllm:request_success_total{{{labels}}} {float(value)}")
    tokens = counters.generation_tokens + counters.prompt_tokens
    lines.append("# TYPE vllm:iteration_tokens_total histogram")
    lines.append(f'vllm:iteration_tokens_total_bucket{{{names},le="+Inf"}} {counters.iterations}.0')
    lines.append(f"vllm:iteration_tokens_total_count{{{names}}} {float(counters.iterations)}")
    lines.append(f"vllm:iteration_tokens_total_sum{{{names}}} {float(tokens)}")
    return ("\n".join(lines) + "\n").encode()
