import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.protocol.request import Speculation, forwarded_body, read_request, tenant_digest
from tests.unit.gateway.requests import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    TOKENIZE,
    request_to,
)

OURS = {"specgate_mode": "auto", "specgate_tenant": tenant_digest("acme")}


def forwarded(body: bytes, *, tenant: str = "acme") -> dict[str, Any]:
    found = json.loads(forwarded_body(read_request(COMPLETIONS, body), tenant=tenant))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 1}, "model"),
        ({"stream": "true"}, "stream"),
        ({"n": "2"}, "n"),
        ({"n": True}, "n"),
        ({"stream_options": []}, "stream_options"),
        ({"vllm_xargs": "x"}, "vllm_xargs"),
        ({"cache_salt": 7}, "cache_salt"),
        ({"speculation": "off"}, "speculation"),
        ({"speculation": {"mode": "fast"}}, "speculation.mode"),
        ({"speculation": {"mode": ["auto"]}}, "speculation.mode"),
        ({"speculation": {"depth": 3}}, "speculation.depth"),
        ({"speculation": {"max_draft_tokens": -1}}, "speculation.max_draft_tokens"),
        ({"speculation": {"max_draft_tokens": True}}, "speculation.max_draft_tokens"),
        ({"speculation": {"max_draft_tokens": 257}}, "speculation.max_draft_tokens"),
        ({"pacing": "fast"}, "pacing"),
        ({"prediction": "text"}, "prediction"),
        ({"prediction": 7, "speculation": {"mode": "off"}}, "prediction"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_field_of_a_wrong_type_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        request_to(CHAT, **fields)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("body", "header", "param"),
    [
        (b"{}", None, "messages"),
        (b'{"messages":null}', None, "messages"),
        (b'{"messages":[],"pacing":"off"}', "fast", "X-Pacing"),
    ],
    ids=["absent", "null", "header"],
)
def test_a_missing_field_or_a_bad_header_is_named(
    body: bytes, header: str | None, param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_request(CHAT, body, pacing_header=header)

    assert caught.value.param == param


def test_null_means_absent() -> None:
    names = ("model", "stream", "n", "stream_options", "vllm_xargs", "cache_salt", "speculation")

    request = request_to(CHAT, **dict.fromkeys((*names, "prediction")))

    assert (request.model, request.stream, request.choices) == (None, False, 1)
    assert request.speculation == Speculation()
    assert request.prediction == ""


def test_an_unknown_field_is_forwarded_byte_for_byte() -> None:
    body = b' {"model" : "m", "temperature": 1.0e0, "x-vendor":{"a":[1.50,"\\u00e9"]}, "n":null}\n'

    sent = forwarded_body(read_request(TOKENIZE, body), tenant="acme")

    assert sent == body


def test_our_fields_are_spliced_into_untouched_text() -> None:
    body = b'{"prompt":"\\u00e9", "temperature": 1.0}'

    sent = forwarded_body(read_request(COMPLETIONS, body), tenant="acme")

    assert sent.startswith(b'{"prompt":"\\u00e9", "temperature": 1.0,')
    assert json.loads(sent)["vllm_xargs"] == OURS


@pytest.mark.parametrize(
    ("endpoint", "added"),
    [
        (CHAT, {"vllm_xargs", "cache_salt"}),
        (COMPLETIONS, {"vllm_xargs", "cache_salt"}),
        (MESSAGES, {"vllm_xargs", "cache_salt"}),
        (EMBEDDINGS, {"cache_salt"}),
        (TOKENIZE, set()),
    ],
    ids=lambda value: getattr(value, "path", ""),
)
def test_each_endpoint_gets_the_fields_it_accepts(endpoint: Any, added: set[str]) -> None:
    request = request_to(endpoint)

    sent = json.loads(forwarded_body(request, tenant="acme"))

    assert set(sent) - set(endpoint.required) == added


@pytest.mark.parametrize(
    "xargs",
    [
        '{"specgate_tenant":"other","keep":1}',
        '{"keep":1,"specgate_mode":"head","specgate_tenant":"a","specgate_tenant":"b"}',
        '{"specg\\u0061te_tenant":"other","keep":1}',
        '{"specgate_prediction":[1,2],"specgate_anything":null,"keep":1}',
        '{"\\u0073pecgate_\\u006dode":"head" , "keep":1}',
    ],
    ids=["plain", "duplicates", "escaped", "others-of-ours", "escaped-mode"],
)
def test_forged_xargs_are_replaced(xargs: str) -> None:
    sent = forwarded(f'{{"vllm_xargs":{xargs}}}'.encode())

    assert sent["vllm_xargs"] == {**OURS, "keep": 1}


def test_duplicate_forged_xargs_are_replaced() -> None:
    body = b'{"vllm_xargs":{"specgate_tenant":"x"},"vllm_x\\u0061rgs":{"specgate_tenant":"y"}}'

    text = forwarded_body(read_request(COMPLETIONS, body), tenant="acme")

    assert json.loads(text)["vllm_xargs"] == OURS
    assert b'"x"' not in text
    assert b'"y"' not in text


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"cache_salt":"other"}', b'{"c\\u0061che_salt":"other"}', b'{"cache_salt":null}'],
    ids=["absent", "given", "escaped", "null"],
)
def test_the_cache_salt_is_always_ours(body: bytes) -> None:
    salt = forwarded(body)["cache_salt"]

    assert salt in {tenant_digest("acme"), tenant_digest("acme", "other")}


def test_a_callers_salt_splits_its_own_cache_and_reaches_no_other() -> None:
    salts = {
        tenant_digest("a"),
        tenant_digest("a", "b"),
        tenant_digest("ab"),
        tenant_digest("b", "a"),
        tenant_digest('a", "b'),
        tenant_digest("\ud800"),
    }

    assert len(salts) == 6
    assert all(len(salt) == 32 and salt.isalnum() for salt in salts)


@pytest.mark.parametrize(
    ("fields", "header", "expected"),
    [
        ({}, None, None),
        ({"pacing": None}, None, None),
        ({"pacing": "private"}, None, "private"),
        ({}, "off", "off"),
        ({"pacing": "smooth"}, "off", "smooth"),
    ],
    ids=["nothing", "null", "body", "header", "body-over-header"],
)
def test_pacing_is_asked_for_in_the_body_or_a_header(
    fields: dict[str, Any], header: str | None, expected: str | None
) -> None:
    body = json.dumps({"messages": [], **fields}).encode()

    request = read_request(CHAT, body, pacing_header=header)

    assert request.pacing == expected
    assert b"pacing" not in forwarded_body(request, tenant="t")


def test_speculation_becomes_xargs_and_leaves_the_body() -> None:
    request = request_to(CHAT, speculation={"mode": "suffix", "max_draft_tokens": 0})

    sent = json.loads(forwarded_body(request, tenant="acme"))

    assert "speculation" not in sent
    assert sent["vllm_xargs"] == {
        **OURS,
        "specgate_mode": "suffix",
        "specgate_max_draft_tokens": 0,
    }


PREDICTION = {"type": "content", "content": "one two"}


def test_a_prediction_becomes_ids_in_xargs_and_leaves_the_body() -> None:
    request = request_to(
        CHAT,
        prediction=PREDICTION,
        vllm_xargs={"specgate_prediction": [9], "keep": 1},
        seed=1,
    )

    before = json.loads(forwarded_body(request, tenant="acme"))
    known = replace(request, predicted_tokens=(5, 0, 70000))
    after = json.loads(forwarded_body(known, tenant="acme"))

    assert request.prediction == "one two"
    assert before["vllm_xargs"] == {**OURS, "keep": 1}
    assert after["vllm_xargs"] == {**OURS, "keep": 1, "specgate_prediction": [5, 0, 70000]}
    assert "prediction" not in before
    assert "prediction" not in after
    assert before["seed"] == after["seed"] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"prediction": None},
        {"prediction": {"type": "content", "content": ""}},
        {"prediction": PREDICTION, "speculation": {"mode": "off"}},
        {"prediction": PREDICTION, "speculation": {"max_draft_tokens": 0}},
    ],
    ids=["null", "empty", "speculation-off", "no-draft-tokens"],
)
def test_an_unused_prediction_is_only_removed(
    fields: dict[str, Any],
) -> None:
    request = request_to(CHAT, **fields)

    assert request.prediction == ""
    assert b"prediction" not in forwarded_body(request, tenant="acme")


@pytest.mark.parametrize(
    "endpoint", [RESPONSES, MESSAGES, EMBEDDINGS, TOKENIZE], ids=lambda endpoint: endpoint.path
)
def test_on_other_endpoints_prediction_is_passed_through(endpoint: Any) -> None:
    request = request_to(endpoint, prediction=7)

    assert request.prediction == ""
    assert json.loads(forwarded_body(request, tenant="acme"))["prediction"] == 7


def test_a_prediction_is_no_part_of_the_prompt() -> None:
    plain = request_to(CHAT, max_tokens=10)
    predicted = request_to(CHAT, max_tokens=10, prediction={**PREDICTION, "content": "x" * 9000})

    assert predicted.estimated_tokens - plain.estimated_tokens <= 1


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {"include_usage": True, "continuous_usage_stats": True}),
        (
            {"stream_options": {"include_usage": False, "x": 1}},
            {"include_usage": True, "continuous_usage_stats": True, "x": 1},
        ),
        ({"n": 2}, {"include_usage": True}),
        (
            {"n": 2, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
            {"include_usage": True, "continuous_usage_stats": True},
        ),
    ],
    ids=str,
)
def test_a_stream_is_asked_for_usage(fields: dict[str, Any], options: dict[str, Any]) -> None:
    request = request_to(CHAT, stream=True, **fields)

    sent = json.loads(forwarded_body(request, tenant="acme"))

    assert sent["stream_options"] == options
    assert b"stream_options" not in forwarded_body(request_to(RESPONSES, stream=True), tenant="a")


@pytest.mark.parametrize(
    ("options", "usage", "continuous"),
    [
        ({}, False, False),
        ({"include_usage": True}, True, False),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
        ({"include_usage": False, "continuous_usage_stats": True}, False, False),
    ],
    ids=str,
)
def test_usage_is_wanted_as_vllm_understands_it(
    options: dict[str, bool], usage: bool, continuous: bool
) -> None:
    request = request_to(CHAT, stream=True, stream_options=options)

    assert (request.wants_usage, request.wants_continuous_usage) == (usage, continuous)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, 0),
        ({"max_tokens": 100}, 100),
        ({"max_completion_tokens": 50, "max_tokens": 100}, 50),
        ({"max_tokens": 100, "n": 3}, 300),
        ({"max_tokens": -100}, 0),
        ({"max_tokens": 100, "n": -1}, -100),
    ],
    ids=str,
)
def test_tokens_are_estimated_from_length_and_limits(fields: dict[str, Any], tokens: int) -> None:
    request = request_to(CHAT, **fields)
    prompt = len(request.body.text) // 4

    assert request.estimated_tokens == max(1, prompt + tokens)


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        ("one", 2),
        (["one", "two", "three"], 6),
        ([1, 2, 3], 2),
        ([[1, 2], [3]], 4),
        ([], 2),
    ],
    ids=str,
)
def test_each_prompt_has_its_own_choices(prompt: object, choices: int) -> None:
    assert request_to(COMPLETIONS, prompt=prompt, n=2).choices == choices
