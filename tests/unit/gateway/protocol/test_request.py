import contextlib
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.protocol.endpoints import Endpoint, forwarded_endpoint
from gateway.protocol.request import (
    InferenceRequest,
    Speculation,
    forwarded_body,
    read_request,
)
from gateway.protocol.tenant import TenantDigests
from tests.unit.gateway.requests import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    TOKENIZE,
    request_to,
)

DIGESTS = TenantDigests(b"secret")
OURS = {"specgate_mode": "auto", "specgate_tenant": DIGESTS.of("acme")}
FORWARDED = forwarded_endpoint("/pooling")
PREDICTION = {"type": "content", "content": "one two"}


def forwarded(request: InferenceRequest) -> bytes:
    return forwarded_body(request, tenant="acme", digests=DIGESTS)


def sent_to(endpoint: Any, **fields: Any) -> dict[str, Any]:
    found = json.loads(forwarded(request_to(endpoint, **fields)))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 1}, "model"),
        ({"messages": None}, "messages"),
        ({"stream": "true"}, "stream"),
        ({"n": "2"}, "n"),
        ({"n": True}, "n"),
        ({"stream_options": []}, "stream_options"),
        ({"vllm_xargs": "x"}, "vllm_xargs"),
        ({"cache_salt": 7}, "cache_salt"),
        ({"speculation": "off"}, "speculation"),
        ({"speculation": {"mode": "fast"}}, "speculation.mode"),
        ({"speculation": {"depth": 3}}, "speculation"),
        ({"speculation": {"max_draft_tokens": -1}}, "speculation.max_draft_tokens"),
        ({"speculation": {"max_draft_tokens": True}}, "speculation.max_draft_tokens"),
        ({"speculation": {"max_draft_tokens": 257}}, "speculation.max_draft_tokens"),
        ({"speculation": {"trace": 1}}, "speculation.trace"),
        ({"speculation": {"trace": True}, "n": 2}, "speculation.trace"),
        ({"pacing": "fast"}, "pacing"),
        ({"prediction": 7, "speculation": {"mode": "off"}}, "prediction"),
    ],
    ids=str,
)
def test_an_invalid_field_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        request_to(CHAT, **fields)

    assert caught.value.param == param


def test_null_means_absent() -> None:
    names = ("model", "stream", "n", "stream_options", "vllm_xargs", "cache_salt", "speculation")

    request = request_to(CHAT, **dict.fromkeys((*names, "prediction")))

    assert (request.model, request.stream, request.choices) == (None, False, 1)
    assert request.speculation == Speculation()
    assert request.prediction == ""


def test_an_unknown_field_is_forwarded_byte_for_byte() -> None:
    body = b' {"model" : "m", "temperature": 1.0e0, "x-vendor":{"a":[1.50,"\\u00e9"]}, "n":null}\n'

    plain = forwarded(read_request(TOKENIZE, body))
    spliced = forwarded(read_request(COMPLETIONS, body))

    kept = b'{"model":"m","temperature":1.0e0,"x-vendor":{"a":[1.50,"\\u00e9"]},"n":null,'
    assert plain == kept.removesuffix(b",") + b"}"
    assert spliced.startswith(kept)
    assert json.loads(spliced)["vllm_xargs"] == OURS


@pytest.mark.parametrize(
    ("endpoint", "added"),
    [
        (CHAT, {"vllm_xargs", "cache_salt"}),
        (COMPLETIONS, {"vllm_xargs", "cache_salt"}),
        (RESPONSES, {"vllm_xargs", "cache_salt", "store"}),
        (MESSAGES, {"vllm_xargs", "cache_salt"}),
        (EMBEDDINGS, {"cache_salt"}),
        (TOKENIZE, set()),
    ],
    ids=lambda value: getattr(value, "path", ""),
)
def test_each_endpoint_gets_the_fields_it_accepts(endpoint: Any, added: set[str]) -> None:
    assert set(sent_to(endpoint)) - set(endpoint.required) == added


@pytest.mark.parametrize(
    "xargs",
    [
        '{"specgate_tenant":"other","keep":1}',
        '{"keep":1,"specgate_mode":"head","specgate_tenant":"a","specgate_tenant":"b"}',
        '{"specg\\u0061te_tenant":"other","keep":1}',
        '{"specgate_prediction":[1,2],"specgate_anything":null,"keep":1}',
        '{"keep":1},"vllm_x\\u0061rgs":{"specgate_tenant":"y","keep":1}',
    ],
)
def test_forged_xargs_are_replaced(xargs: str) -> None:
    body = f'{{"vllm_xargs":{xargs}}}'.encode()

    sent = forwarded(read_request(COMPLETIONS, body))

    assert json.loads(sent)["vllm_xargs"] == {**OURS, "keep": 1}
    assert b'"y"' not in sent


def test_thousands_of_forged_xargs_are_removed() -> None:
    forged = ",".join(f'"specgate_{number}":1' for number in range(8_000))

    sent = forwarded(read_request(COMPLETIONS, b'{"vllm_xargs":{%s}}' % forged.encode()))

    assert json.loads(sent)["vllm_xargs"] == OURS


@pytest.mark.parametrize(
    ("body", "salt"),
    [
        (b"{}", DIGESTS.of("acme")),
        (b'{"cache_salt":null}', DIGESTS.of("acme")),
        (b'{"c\\u0061che_salt":"other"}', DIGESTS.of("acme", "other")),
    ],
)
def test_the_cache_salt_is_always_ours(body: bytes, salt: str) -> None:
    sent = forwarded(read_request(COMPLETIONS, body))

    assert json.loads(sent)["cache_salt"] == salt


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b'{"a": [1, 1.0]}', b'{"a":[1, 1.0]}'),
        (b'{"cache_salt":"x","cache_salt":null}', b'{"cache_salt":null}'),
        (b'{"vllm_xargs":{"specgate_x":1},"vllm_xargs":null}', b'{"vllm_xargs":null}'),
        (b'{"cache_salt":null,"vllm_xargs":null}', b'{"cache_salt":null,"vllm_xargs":null}'),
        (b'{"a": 1.0,"cache_salt":"x"}', b'{"a":1.0,"cache_salt":"%s"}'),
        (b'{"vllm_xargs":{"specgate_tenant":"y","keep":[ 1 ]}}', b'{"vllm_xargs":{"keep":[ 1 ]}}'),
    ],
    ids=str,
)
@pytest.mark.parametrize("endpoint", [FORWARDED, TOKENIZE], ids=lambda e: e.path)
def test_forged_fields_do_not_pass_on_other_paths(
    endpoint: Endpoint, body: bytes, sent: bytes
) -> None:
    salted = sent.replace(b"%s", DIGESTS.of("acme", "x").encode())

    assert forwarded(read_request(endpoint, body)) == salted


@pytest.mark.parametrize(
    ("fields", "header", "expected"),
    [
        ({"pacing": None}, None, None),
        ({"pacing": "private"}, None, "private"),
        ({}, "off", "off"),
        ({"pacing": "smooth"}, "off", "smooth"),
    ],
    ids=["null", "body", "header", "body-over-header"],
)
def test_pacing_is_asked_for_in_the_body_or_a_header(
    fields: dict[str, Any], header: str | None, expected: str | None
) -> None:
    body = json.dumps({"messages": [], **fields}).encode()

    request = read_request(CHAT, body, pacing_header=header)

    assert request.pacing == expected
    assert b"pacing" not in forwarded(request)
    with pytest.raises(InvalidRequestError, match="X-Pacing"):
        read_request(CHAT, body, pacing_header="fast")


@pytest.mark.parametrize("most", [0, 256])
def test_speculation_becomes_xargs_and_leaves_the_body(most: int) -> None:
    sent = sent_to(CHAT, speculation={"mode": "suffix", "max_draft_tokens": most})

    assert "speculation" not in sent
    wanted = {"specgate_mode": "suffix", "specgate_max_draft_tokens": most}
    assert sent["vllm_xargs"] == {**OURS, **wanted}


@pytest.mark.parametrize("trace", [True, False, None], ids=["on", "off", "by default"])
def test_only_the_gateway_asks_the_worker_for_a_trace(trace: bool | None) -> None:
    speculation = {"mode": "head"} | ({} if trace is None else {"trace": trace})

    sent = sent_to(CHAT, speculation=speculation, vllm_xargs={"specgate_trace": 7})

    asked = {"specgate_trace": 1} if trace else {}
    assert sent["vllm_xargs"] == {**OURS, "specgate_mode": "head", **asked}


@pytest.mark.parametrize(
    ("endpoint", "fields"),
    [
        (RESPONSES, {}),
        (MESSAGES, {}),
        (COMPLETIONS, {"n": 2}),
        (COMPLETIONS, {"prompt": ["a", "b"]}),
    ],
    ids=["responses", "messages", "two choices", "two prompts"],
)
def test_a_trace_that_the_answer_has_no_place_for_is_refused(
    endpoint: Any, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        request_to(endpoint, speculation={"trace": True}, **fields)

    assert caught.value.param == "speculation.trace"


def test_a_trace_of_one_prompt_in_a_list_is_sent() -> None:
    sent = sent_to(COMPLETIONS, prompt=["a"], speculation={"trace": True})

    assert sent["vllm_xargs"]["specgate_trace"] == 1


def test_where_nothing_is_generated_a_trace_is_ignored() -> None:
    sent = sent_to(EMBEDDINGS, input=["a", "b"], speculation={"trace": True})

    assert not {"speculation", "vllm_xargs"} & sent.keys()


def test_a_prediction_becomes_ids_in_xargs_and_leaves_the_body() -> None:
    forged = {"specgate_prediction": [9], "keep": 1}
    request = request_to(CHAT, prediction=PREDICTION, vllm_xargs=forged, seed=1)

    before = json.loads(forwarded(request))
    known = replace(request, predicted_tokens=(5, 0, 70000))
    after = json.loads(forwarded(known))

    assert request.prediction == "one two"
    assert before["vllm_xargs"] == {**OURS, "keep": 1}
    assert after["vllm_xargs"] == {**OURS, "keep": 1, "specgate_prediction": [5, 0, 70000]}
    assert "prediction" not in {*before, *after}
    assert before["seed"] == after["seed"] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"prediction": None},
        {"prediction": PREDICTION, "speculation": {"mode": "off"}},
        {"prediction": PREDICTION, "speculation": {"max_draft_tokens": 0}},
    ],
    ids=str,
)
def test_an_unused_prediction_is_only_removed(fields: dict[str, Any]) -> None:
    request = request_to(CHAT, **fields)

    assert request.prediction == ""
    assert b"prediction" not in forwarded(request)


@pytest.mark.parametrize(
    "endpoint", [RESPONSES, MESSAGES, EMBEDDINGS, TOKENIZE], ids=lambda e: e.path
)
def test_on_other_endpoints_prediction_is_passed_through(endpoint: Any) -> None:
    assert request_to(endpoint, prediction=7).prediction == ""
    assert sent_to(endpoint, prediction=7)["prediction"] == 7


BOTH = {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, BOTH),
        ({"stream_options": {"include_usage": False, "x": 1}}, {**BOTH, "x": 1}),
        ({"n": 2, "stream_options": {"continuous_usage_stats": True}}, {"include_usage": True}),
        ({"n": 2, "stream_options": BOTH}, BOTH),
    ],
    ids=str,
)
def test_a_stream_is_asked_for_usage(fields: dict[str, Any], options: dict[str, Any]) -> None:
    assert sent_to(CHAT, stream=True, **fields)["stream_options"] == options
    assert "stream_options" not in sent_to(RESPONSES, stream=True)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, 0),
        ({"max_completion_tokens": 50, "max_tokens": 100}, 50),
        ({"max_tokens": 100, "n": 3}, 300),
        ({"max_tokens": -100}, 0),
        ({"max_tokens": 100.0}, 100),
        ({"max_completion_tokens": None, "max_tokens": 30}, 30),
        ({"max_tokens": 100, "n": -1}, 100),
        ({"max_output_tokens": 100}, 0),
        ({"prediction": {**PREDICTION, "content": "x" * 9000}}, -2263),
    ],
    ids=lambda value: str(value)[:40],
)
def test_tokens_are_estimated_from_length_and_limits(fields: dict[str, Any], tokens: int) -> None:
    request = request_to(CHAT, **fields)
    prompt = len(request.body) // 4

    assert request.estimated_tokens(None) == pytest.approx(max(1, prompt + tokens), abs=5)


@pytest.mark.parametrize(
    ("endpoint", "fields", "tokens"),
    [
        (CHAT, {}, 1_000),
        (CHAT, {"max_tokens": None}, 1_000),
        (CHAT, {"max_output_tokens": 1}, 1_000),
        (CHAT, {"max_tokens": 10**9}, 1_000),
        (CHAT, {"max_tokens": 100, "x": "y" * 400}, 200),
        (CHAT, {"x": "y" * 400}, 1_000),
        (CHAT, {"n": 3}, 3_000),
        (RESPONSES, {}, 1_000),
        (MESSAGES, {}, 1_000),
        (COMPLETIONS, {"prompt": "x"}, 16),
        (COMPLETIONS, {"prompt": "x", "max_tokens": None}, 1_000),
        (COMPLETIONS, {"prompt": ["x" * 400, "y" * 400]}, 232),
        (CHAT, {"x": "y" * 40_000}, 10_000),
        (EMBEDDINGS, {"input": "x" * 400}, 100),
    ],
    ids=lambda value: getattr(value, "path", str(value)[:40]),
)
def test_a_request_without_a_limit_is_taken_to_use_the_models_length(
    endpoint: Endpoint, fields: dict[str, Any], tokens: int
) -> None:
    request = request_to(endpoint, **fields)

    assert request.estimated_tokens(1_000) == pytest.approx(tokens, abs=20)


@pytest.mark.parametrize(
    ("endpoint", "fields", "added"),
    [
        (CHAT, {"messages": []}, {"max_tokens": 70}),
        (CHAT, {"messages": [], "max_tokens": None}, {"max_tokens": 70}),
        (CHAT, {"messages": [], "max_tokens": 9}, {"max_tokens": 9}),
        (CHAT, {"messages": [], "max_completion_tokens": 9}, {"max_completion_tokens": 9}),
        (RESPONSES, {}, {"max_output_tokens": 70}),
        (COMPLETIONS, {}, {}),
        (COMPLETIONS, {"max_tokens": None}, {"max_tokens": 70}),
        (MESSAGES, {"messages": []}, {}),
        (EMBEDDINGS, {}, {}),
        (FORWARDED, {}, {}),
    ],
    ids=lambda value: getattr(value, "path", str(value)),
)
def test_the_default_limit_is_added_where_a_request_sets_none(
    endpoint: Endpoint, fields: dict[str, Any], added: dict[str, int]
) -> None:
    body = json.dumps(fields).encode()

    request = read_request(endpoint, body, default_max_tokens=70)
    sent = json.loads(forwarded(request))

    assert {name: sent[name] for name in sent if "tokens" in name} == added


def test_the_default_limit_is_at_most_the_models_length() -> None:
    ours = read_request(RESPONSES, b"{}", default_max_tokens=70)
    theirs = request_to(RESPONSES, max_output_tokens=70)

    limits = [
        json.loads(forwarded(request.within(length)))["max_output_tokens"]
        for request in (ours, theirs)
        for length in (None, 100, 50)
    ]

    assert limits == [70, 70, 50, 70, 70, 70]


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        ("one", 2),
        (["one", "two", "three"], 6),
        (['"', "\\", '\\"', "[1]", "é"], 10),
        ([1, 2, 3], 2),
        ([[1, 2], [3], []], 6),
        ([], 2),
        (["x"] * 3_000, 2_000),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_prompt_has_its_own_choices(prompt: object, choices: int) -> None:
    assert request_to(COMPLETIONS, prompt=prompt, n=2).choices == choices


def repeated(before: str, piece: str, after: str) -> bytes:
    """About a mebibyte of JSON."""
    count = 2**20 // (len(piece) + 1)
    return (before + ",".join([piece] * count) + after).encode()


def numbered(before: str, after: str) -> bytes:
    return (before + ",".join(f'"k{number}":1' for number in range(90_000)) + after).encode()


@pytest.mark.parametrize(
    "body",
    [
        repeated('{"prompt":[', "[]", "]}"),
        repeated('{"prompt":[', '"x"', "]}"),
        repeated('{"messages":[', "[[],{}]", "]}"),
        repeated('{"tools":[{', '"a":"b"', "}]}"),
        repeated('{"speculation":[', "[]", "]}"),
        repeated('{"prediction":{"type":"content","content":[', "[]", "]}}"),
        repeated("{", '"a":1', "}"),
        repeated('{"prompt":[', "[]", ""),
        numbered("{", "}"),
        numbered('{"vllm_xargs":{', "}}"),
        numbered('{"stream":true,"stream_options":{', "}}"),
        b'{"prompt":"\xf0\x9f\x99\x82' + b"x" * 2**20 + b'"}',
        b'{"model":"\xf0\x9f\x99\x82' + b"x" * 2**20 + b'"}',
        b'{"pacing":"' + b"x" * 2**20 + b'"}',
        b'{"' + b"x" * 2**20 + b'":1}',
        b'{"n":' + b"9" * 2**20 + b"}",
        b'{"prompt":' + b"[" * 2**20,
    ],
    ids=lambda body: body[:40].decode("ascii", "replace"),
)
def test_a_body_costs_at_most_three_times_its_size(body: bytes) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidRequestError):
            forwarded(read_request(COMPLETIONS, body))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(body) + peak_bytes <= 3 * len(body)


@pytest.mark.parametrize("name", ["model", "cache_salt", "pacing", "stream_options"])
def test_a_field_that_is_read_has_a_bounded_length(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="too long") as caught:
        read_request(COMPLETIONS, json.dumps({name: "x" * 2**16}).encode())

    assert caught.value.param == name


@pytest.mark.parametrize(("tenant", "agreed"), [("acme", True), ("other", False)])
def test_only_requests_of_tenants_that_agreed_may_be_learnt_from(tenant: str, agreed: bool) -> None:
    digests = TenantDigests(b"secret", frozenset({"acme"}))
    request = request_to(CHAT, vllm_xargs={"specgate_adapt": 1})

    body = json.loads(forwarded_body(request, tenant=tenant, digests=digests))

    assert body["vllm_xargs"].get("specgate_adapt") == (1 if agreed else None)
