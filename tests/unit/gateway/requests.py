"""Requests as a route reads them."""

import json
from typing import Any

from gateway.protocol import ENDPOINTS, Endpoint, InferenceRequest, read_request

BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
CHAT = BY_PATH["/v1/chat/completions"]
COMPLETIONS = BY_PATH["/v1/completions"]
RESPONSES = BY_PATH["/v1/responses"]
MESSAGES = BY_PATH["/v1/messages"]
EMBEDDINGS = BY_PATH["/v1/embeddings"]
TOKENIZE = BY_PATH["/tokenize"]


def request_to(endpoint: Endpoint, **fields: Any) -> InferenceRequest:
    """A request with `fields` and the fields that the endpoint requires."""
    required: dict[str, Any] = {name: [] for name in endpoint.required}
    return read_request(endpoint, json.dumps(required | fields).encode())
