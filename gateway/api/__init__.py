"""Thin routes: parse, call `serving`, return."""

from gateway.api.asgi import CLIENT_SOCKET, BodyPolicy
from gateway.api.canary import canary_routes
from gateway.api.error_handler import install_error_handlers
from gateway.api.heads import heads_routes
from gateway.api.inference import InferenceRoute
from gateway.api.information import (
    health_routes,
    metrics_routes,
    models_routes,
    speculation_routes,
)
from gateway.api.live import live_routes
from gateway.api.openapi import openapi_routes
from gateway.api.page import page_routes
from gateway.api.responses import responses_routes
from gateway.api.state import Services

__all__ = [
    "CLIENT_SOCKET",
    "BodyPolicy",
    "InferenceRoute",
    "Services",
    "canary_routes",
    "heads_routes",
    "health_routes",
    "install_error_handlers",
    "live_routes",
    "metrics_routes",
    "models_routes",
    "openapi_routes",
    "page_routes",
    "responses_routes",
    "speculation_routes",
]
