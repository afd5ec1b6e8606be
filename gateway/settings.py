"""The gateway's settings; only this module of the package reads the environment or YAML.

Order: environment (`SPECGATE_GATEWAY__...`) over the profile's `gateway:` section over defaults.
Unknown names are refused in both. The worker reads the `engine:` section.
"""

import os
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from gateway.errors import ConfigError
from gateway.types import PacingMode

PREFIX = "SPECGATE_GATEWAY__"
_ENGINE_PREFIX = "SPECGATE_ENGINE__"
_SECTIONS = {"gateway", "engine"}
DISCOVERED_SCHEME = "dns+http"
"""URL scheme: every address of the host name is a worker."""
PROCESS_VARIABLE = "SPECGATE_PROCESS"
"""Set by `specgate serve` for each of several processes: `index:ledger descriptor`."""

_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[\w.~-]+)+", re.ASCII)
_OWN_PATHS = frozenset(
    (
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/models",
        "/tokenize",
        "/detokenize",
        "/speculation",
        "/live",
        "/heads",
        "/canary/open",
        "/metrics",
        "/health",
        "/ping",
        "/version",
        "/openapi.json",
    )
)
"""A test compares them with the app's routes. `/` is no path that can be forwarded."""
_OWN_FOLDERS = ("/v1/models/", "/v1/responses/", "/metrics/", "/health/", "/heads/", "/page/")

RESPONSE_STORE = r"^(sqlite|off|postgres(ql)?://([^@:/?\s]+@)?[^@?\s]*(\?[^\s]*)?)$"
"""What `gateway.responses.store` may be."""

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeySettings(_Section):
    """API keys."""

    file: Path | None = Field(
        None, description="File of hashed keys (`specgate keys`); none: no keys."
    )
    reload_seconds: Seconds = Field(
        1.0, description="Interval between checks of the file for changes."
    )
    requests_per_minute: Count | None = Field(None, description="Limit of keys without their own.")
    tokens_per_minute: Count | None = Field(None, description="Limit of keys without their own.")
    concurrent_requests: Count | None = Field(None, description="Limit of keys without their own.")


class CorsSettings(_Section):
    """Access of web pages from other origins; keys in a page are visible to its users."""

    origins: tuple[Annotated[str, Field(pattern=r"^(\*|[a-z][a-z0-9+.-]*://[^/\s]+)$")], ...] = (
        Field(
            (),
            description="Origins whose pages may call the gateway, as browsers send them "
            "(`https://chat.example.com`, without a slash at the end); `*`: all.",
        )
    )


class AdmissionSettings(_Section):
    """Limits on concurrency and memory; `processes` share the counts evenly."""

    max_running_requests: Count = Field(256, description="Maximum number of running requests.")
    max_queued_requests: Annotated[int, Field(ge=0)] = Field(
        1024, description="Maximum number of queued requests."
    )
    queue_timeout_seconds: Seconds = Field(30.0, description="Longest wait for a slot.")
    max_body_bytes: Count = Field(32 * 2**20, description="Largest request body; over it: 413.")
    max_bytes_in_flight: Count = Field(
        256 * 2**20,
        description="Bytes of the bodies of all running and waiting requests; over it: 429.",
    )
    tenant_bytes_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="Share of `max_bytes_in_flight` that a tenant may use if there are keys."
    )
    body_timeout_seconds: Seconds = Field(
        60.0, description="Longest time to receive a request body; over it: 408."
    )
    body_idle_seconds: Seconds = Field(
        30.0, description="Longest time between two pieces of a request body; over it: 408."
    )


class LimitsSettings(_Section):
    """Where the use of each key's limits is counted."""

    store: str | None = Field(
        None,
        # No password, no options: an error message or a log would show them.
        pattern=r"^(rediss?://([^@:/?]+@)?([^@:/?]+|\[[0-9a-f:]+\])(:\d{1,5})?(/\d*)?|unix:///[^?]+)$",
        description="URL of a Redis or Valkey server that all replicas share "
        "(`redis://host:6379/0`, `rediss://`, `unix://`); none: each replica counts by itself.",
    )
    password_file: Path | None = Field(None, description="File with the store's password.")
    when_unreachable: Literal["open", "closed"] = Field(
        "open",
        description="While the store is down: `open`: each replica counts by itself; `closed`: "
        "requests of keys with limits get 503.",
    )
    timeout_seconds: Seconds = Field(0.1, description="Longest wait for the store.")
    lease_seconds: Seconds = Field(
        30.0, description="How long the running requests of a replica that died are counted."
    )


class ResponsesSettings(_Section):
    """Responses that are kept, so that `/v1/responses` can continue them."""

    store: str = Field(
        "sqlite",
        # No password: an error message or a log would show it.
        pattern=RESPONSE_STORE,
        description="`sqlite`: in a file that all processes of this gateway share; the URL of a "
        "PostgreSQL database that all replicas share (`postgresql://user@host:5432/name`); `off`: "
        "none are kept, and requests that need one get 400.",
    )
    path: Path | None = Field(
        None,
        description="The file of `sqlite`, on a local disk; none: `responses.sqlite` in the cache "
        "folder.",
    )
    password_file: Path | None = Field(
        None, description="File with the database's password; none: as libpq finds it."
    )
    ttl_hours: Annotated[float, Field(gt=0, le=24 * 3650)] = Field(
        720.0, description="How long a response is kept."
    )
    max_bytes_per_tenant: Count = Field(
        256 * 2**20, description="Bytes of a tenant's responses; over it, its oldest are removed."
    )
    max_bytes: Count = Field(
        2**30, description="Bytes of all responses; over it, the oldest are removed."
    )
    timeout_seconds: Seconds = Field(
        2.0, description="Longest wait for the database, and of the end of an answer for either."
    )

    @field_validator("store", mode="before")
    @classmethod
    def _read_off(cls, value: object) -> object:
        return "off" if value is False else value  # YAML reads a bare `off` as false

    @model_validator(mode="after")
    def _refuse_passwords(self) -> "ResponsesSettings":
        if "password" in urlsplit(self.store).query:
            raise ValueError("store: the password belongs into password_file")
        return self

    @property
    def file(self) -> Path:
        """The file of `sqlite`."""
        return self.path or cache_dir() / "responses.sqlite"


class RequestSettings(_Section):
    """Bounds of one request."""

    connect_seconds: Seconds = Field(2.0, description="Longest time to connect to a worker.")
    silence_seconds: Seconds = Field(
        300.0, description="Longest silence of a worker; over it: 504."
    )
    total_seconds: Seconds = Field(
        3600.0, description="Longest duration of a request; over it: 504."
    )
    wait_for_worker_seconds: Seconds = Field(
        120.0, description="How long a request waits for a healthy worker; over it: 503."
    )
    max_replays: Annotated[int, Field(ge=0)] = Field(
        2, description="How often a request is replayed after a worker that received it died."
    )
    held_answer_bytes: Count = Field(
        8 * 2**20,
        description="An answer that is not a stream is held until complete, up to this size.",
    )
    default_max_tokens: Count | None = Field(
        None,
        description="Longest output of a chat completion or response that sets no limit itself; "
        "none: up to the model's length.",
    )
    max_prediction_tokens: Annotated[int, Field(ge=0)] = Field(
        16384, description="A longer `prediction` is cut; 0: all are ignored."
    )
    tokenize_seconds: Seconds = Field(
        2.0, description="Longest time to tokenize a `prediction`, which is ignored after that."
    )


class StreamSettings(_Section):
    """Bounds of a stream."""

    keep_alive_seconds: Seconds = Field(
        15.0, description="A comment is sent after this time without an event."
    )
    client_stuck_seconds: Seconds = Field(
        120.0, description="A client that reads nothing for this time is disconnected."
    )
    max_frame_bytes: Count = Field(8 * 2**20, description="Largest event in a worker's stream.")
    resume: bool = Field(
        True,
        description="Whether a stream whose worker is lost goes on with another one (chat and "
        "text completions).",
    )


class PacingSettings(_Section):
    """When the pieces of streams leave."""

    mode: PacingMode = Field(
        "smooth",
        description="`smooth`: evenly; `private`: in packets of fixed size and time, which a "
        "request cannot turn off; `off`: as they arrive. Keys and models may have their own mode.",
    )
    models: dict[str, PacingMode] = Field({}, description="The mode of single models, by name.")
    max_delay_ms: Annotated[float, Field(gt=0, le=1000)] = Field(
        120.0, description="Longest delay that `smooth` adds to a token."
    )
    piece_ms: Annotated[float, Field(ge=5, le=250)] = Field(
        30.0, description="How much text a smooth piece holds, in reading time."
    )
    private_tick_ms: Annotated[float, Field(ge=10, le=1000)] = Field(
        50.0, description="Interval between two packets of a private stream."
    )
    private_packet_bytes: Annotated[int, Field(ge=256, le=2**16)] = Field(
        1024,
        description="Size of a packet; larger packets have twice the size, four times, and so on.",
    )
    private_start_ms: Annotated[float, Field(ge=10, le=10_000)] = Field(
        500.0,
        description="The first packet is sent at a multiple of this after the request arrived.",
    )
    private_least_seconds: Seconds = Field(
        5.0, description="A private stream lasts this long, or twice, four times, and so on."
    )


class CanarySettings(_Section):
    """Greedy requests that are asked again without drafts, to compare (docs/lossless.md)."""

    share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="Share of the requests that are asked again; 0: none."
    )
    most_time: Annotated[float, Field(gt=0, le=1)] = Field(
        0.02,
        description="Largest share of the time that this takes, by the clock; `processes` share "
        "it evenly.",
    )
    max_tokens: Annotated[int, Field(ge=1, le=16384)] = Field(
        512, description="Tokens of an answer that are compared."
    )
    margin: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="Largest difference of log-probabilities, in nats, of two tokens that may "
        "change places; none: by the model's dtype.",
    )
    shut_after: Count | None = Field(
        None,
        description="Defects after which a source of drafts is shut for a model, until `specgate "
        "canary open`; none: never.",
    )


class UpstreamSettings(_Section):
    """Health of workers and how failures are handled."""

    probe_seconds: Seconds = Field(1.0, description="Interval between health checks of a worker.")
    probe_timeout_seconds: Seconds = Field(5.0, description="Longest wait for a health check.")
    probe_failures: Count = Field(
        3, description="Consecutive failures after which a worker is down."
    )
    models_seconds: Seconds = Field(
        30.0, description="Interval between reads of the list of models."
    )
    breaker_failures: Count = Field(
        5,
        description="Consecutive failed requests after which a worker is ejected: it gets no "
        "requests for a while. At most half of the workers are.",
    )
    breaker_seconds: Seconds = Field(
        1.0, description="Length of a worker's first ejection; doubles."
    )
    breaker_max_seconds: Seconds = Field(30.0, description="Longest ejection.")
    retry_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        0.2, description="Retries that each request adds to the budget that all share."
    )
    slow_start_seconds: Annotated[float, Field(ge=0)] = Field(
        10.0,
        description="A recovered worker gets fewer requests for this time, by the rule "
        "`least_loaded`.",
    )
    resolve_seconds: Seconds = Field(
        5.0, description="Interval between lookups of a `dns+http://` worker's addresses."
    )
    api_key_file: Path | None = Field(None, description="File with the API key of the workers.")


class RoutingSettings(_Section):
    """Which of several workers gets a request (ADR 47)."""

    rule: Literal["expected_time", "least_loaded"] = Field(
        "expected_time",
        description="`expected_time`: where the request is expected to end first, by what a worker "
        "has cached and has to do, and its speed; `least_loaded`: the less loaded of two drawn at "
        "random.",
    )
    most_load: Annotated[float, Field(ge=1)] = Field(
        1.2,
        description="A worker with more requests than this many times the mean plus one gets no "
        "new conversations; with a quarter more it is passed over, whatever it has cached.",
    )


class SupervisorSettings(_Section):
    """Supervision of the worker that the gateway starts."""

    check_seconds: Seconds = Field(2.0, description="Interval between checks.")
    probe_seconds: Seconds = Field(5.0, description="Longest wait for a check.")
    start_seconds: Seconds = Field(900.0, description="Longest time from start to healthy.")
    unhealthy_seconds: Seconds = Field(
        30.0, description="Restart after failing health checks for this time."
    )
    stalled_seconds: Seconds = Field(
        120.0, description="Restart after open requests without an iteration."
    )
    stop_seconds: Seconds = Field(20.0, description="Time from SIGTERM to SIGKILL.")
    backoff_seconds: Seconds = Field(1.0, description="Pause before the second restart; doubles.")
    backoff_max_seconds: Seconds = Field(60.0, description="Longest pause.")
    backoff_reset_seconds: Seconds = Field(
        300.0, description="A run of this length resets the pause."
    )
    log_file: Path | None = Field(None, description="File for the worker's output; none: stderr.")


class DrainSettings(_Section):
    """Shutdown after SIGTERM."""

    accept_seconds: Annotated[float, Field(ge=0)] = Field(
        5.0, description="Time to accept requests while unready, so that load balancers notice."
    )
    finish_seconds: Seconds = Field(
        60.0, description="Time after that for running requests to finish."
    )


class LiveSettings(_Section):
    """What `GET /live` and `specgate top` show operators."""

    sample_seconds: Annotated[float, Field(ge=0.1, le=60)] = Field(
        5.0, description="Interval between samples; the last 180 are kept."
    )
    dashboards_url: str | None = Field(
        None, pattern=r"^https?://", description="Link to the dashboards; none: it is not shown."
    )
    runbook_url: str = Field(
        "https://github.com/specgate/specgate/blob/main/docs/runbook.md",
        pattern=r"^https?://",
        description="Link to the runbook.",
    )


class TracingSettings(_Section):
    """Spans of requests."""

    endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/]+/",
        description="URL of a collector that takes OTLP over HTTP (`http://host:4318/v1/traces`); "
        "none: no spans.",
    )
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="Share of requests to trace; the caller's decision takes precedence."
    )


class LogSettings(_Section):
    """The log."""

    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level shown."
    )


class GatewaySettings(BaseSettings):
    """All settings of the gateway."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8000, description="Port; 0: any free one.")
    processes: Annotated[int, Field(ge=1, le=64)] = Field(1, description="Gateway processes.")
    allow_without_keys: bool = Field(
        False, description="Allow a public address although there are no keys."
    )
    workers: tuple[str, ...] = Field(
        (),
        description="URLs of remote workers; none: start one. `dns+http://name:port` stands for "
        "every address of the name.",
    )
    forward_paths: tuple[str, ...] = Field(
        ("/v1/score", "/v1/rerank", "/pooling", "/classify", "/v1/messages/count_tokens"),
        description="Additional POST paths that are forwarded. Nothing is added to their bodies; a "
        "client's own `cache_salt` is hashed with its tenant.",
    )
    tenant_secret_file: Path | None = Field(
        None,
        description="File with the secret from which the workers' names for tenants are made. With "
        "the same secret, several gateways share what workers have cached and learnt of a tenant. "
        "None: a random one at each start, and after a restart workers no longer know a tenant; a "
        "gateway that starts its own worker keeps it in the cache folder.",
    )
    learn_from_tenants: tuple[str, ...] = Field(
        (),
        description="Tenants that agreed that draft heads learn from their prompts and answers, "
        "which workers with `engine.speculation.head.adapt` then keep on disk (docs/heads.md). "
        "Without keys all callers are the tenant `anonymous`.",
    )
    page: bool = Field(
        True,
        description="Serve a page at `/` on which people try prompts and see what speculation does "
        "for them. It asks for a key if there are keys; false: `/` is 404.",
    )
    keys: KeySettings = KeySettings()
    cors: CorsSettings = CorsSettings()
    admission: AdmissionSettings = AdmissionSettings()
    limits: LimitsSettings = LimitsSettings()
    request: RequestSettings = RequestSettings()
    responses: ResponsesSettings = ResponsesSettings()
    stream: StreamSettings = StreamSettings()
    pacing: PacingSettings = PacingSettings()
    canary: CanarySettings = CanarySettings()
    upstream: UpstreamSettings = UpstreamSettings()
    routing: RoutingSettings = RoutingSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    drain: DrainSettings = DrainSettings()
    log: LogSettings = LogSettings()
    live: LiveSettings = LiveSettings()
    tracing: TracingSettings = TracingSettings()

    @model_validator(mode="after")
    def _require_keys(self) -> "GatewaySettings":
        if self.keys.file is None and not self.allow_without_keys and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines and there are no keys: set "
                "gateway.keys.file, or gateway.allow_without_keys if something in front checks them"
            )
        return self

    @model_validator(mode="after")
    def _check_urls(self) -> "GatewaySettings":
        for url in self.workers:
            _check_worker_url(url)
        if len({urlsplit(url).netloc for url in self.workers}) < len(self.workers):
            raise ValueError("workers: one of them is listed twice")
        return self

    @model_validator(mode="after")
    def _check_forward_paths(self) -> "GatewaySettings":
        for path in self.forward_paths:
            if not _PATH.fullmatch(path):
                raise ValueError(
                    f"forward_paths: {path} must be a plain path: a slash before each part, and "
                    "letters, digits, '.', '_', '~' and '-' in it"
                )
            if path in _OWN_PATHS or path.startswith(_OWN_FOLDERS):
                raise ValueError(f"forward_paths: {path} is served by the gateway itself")
        if len(set(self.forward_paths)) < len(self.forward_paths):
            raise ValueError("forward_paths: one of them is listed twice")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only `load_settings` decides where values come from."""
        return (init_settings,)


class _Environment(EnvSettingsSource):
    """pydantic-settings' environment source, reading a mapping that is passed in."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name.lower(): value for name, value in environ.items()}
        super().__init__(GatewaySettings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environ


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_settings(
    profile: Path | None,
    environ: Mapping[str, str] | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
) -> GatewaySettings:
    """Read, merge and check the settings.

    Args:
        profile: YAML file; None: defaults.
        environ: The environment; None: the process's.
        overrides: Values that take precedence over both, by path (`drain.finish_seconds`).

    Raises:
        ConfigError: One line for each error.
    """
    environ = {**(os.environ if environ is None else environ), **_variables(overrides or {})}
    unknown = sorted(_unknown_names(environ))
    if unknown:
        raise ConfigError("\n".join(f"unknown environment variable {name}" for name in unknown))
    try:
        merged = _merged(_section(profile), _Environment(environ)())
        return GatewaySettings(**merged)
    except ValidationError as error:
        raise ConfigError(_explained(error)) from error
    except SettingsError as error:
        raise ConfigError(f"environment: {error}") from error


def read_secret(path: Path | None) -> SecretStr | None:
    """Read a secret from a file, without surrounding white space.

    Raises:
        ConfigError: The file cannot be read, or is empty.
    """
    if path is None:
        return None
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8") from error
    if not secret:
        raise ConfigError(f"{path}: is empty")
    return SecretStr(secret)


def client_key() -> SecretStr | None:
    """The key in the environment of a command that calls a gateway: OpenAI's variable."""
    key = os.environ.get("OPENAI_API_KEY")
    return SecretStr(key) if key else None


def cache_dir() -> Path:
    """The cache folder. Source: XDG Base Directory Specification."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "specgate"


def child_environment(
    *, index: int, ledger: int, metrics_dir: Path, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The environment of one of several gateway processes; `overrides` as in `load_settings`."""
    return {
        **os.environ,
        **_variables(overrides),
        PROCESS_VARIABLE: f"{index}:{ledger}",
        "PROMETHEUS_MULTIPROC_DIR": str(metrics_dir),
    }


def shared_metrics_dir() -> Path | None:
    """Where the processes of this gateway share their metrics; None if there is only one."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return None if folder is None else Path(folder)


def process_position() -> tuple[int, int | None]:
    """Index and ledger descriptor of this process; (0, None) if it is the only one."""
    position = os.environ.get(PROCESS_VARIABLE)
    if position is None:
        return 0, None
    index, _, descriptor = position.partition(":")
    return int(index), int(descriptor)


def _variables(overrides: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + path.upper().replace(".", "__"): text for path, text in overrides.items()}


def _section(profile: Path | None) -> dict[str, Any]:
    if profile is None:
        return {}
    try:
        content = yaml.safe_load(profile.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"{profile}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{profile}: is not UTF-8") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{profile}: is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{profile}: must hold the sections {' and '.join(sorted(_SECTIONS))}")
    for name in content:
        if name not in _SECTIONS:
            raise ConfigError(f"{profile}: unknown section {name}")
    section = content.get("gateway")
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ConfigError(f"{profile}: gateway must hold settings")
    return {str(name): value for name, value in section.items()}


def _check_worker_url(url: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("workers: a URL holds a password; put it into upstream.api_key_file")
    known = ("http", "https", DISCOVERED_SCHEME)
    if parts.scheme not in known or not parts.hostname or parts.port == 0:
        raise ValueError(f"workers: {url} is no http://, https:// or {DISCOVERED_SCHEME}:// URL")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"workers: {url} must end after host and port")


def _unknown_names(environ: Mapping[str, str]) -> Iterator[str]:
    for name in environ:
        if not name.startswith("SPECGATE_") or name == PROCESS_VARIABLE:
            continue
        if name.startswith(_ENGINE_PREFIX):
            continue  # the worker checks these
        if not name.startswith(PREFIX) or not _exists(name.removeprefix(PREFIX).lower()):
            yield name


def _exists(path: str) -> bool:
    fields = GatewaySettings.model_fields
    for part in path.split("__"):
        if part not in fields:
            return False
        below = fields[part].default
        fields = type(below).model_fields if isinstance(below, BaseModel) else {}
    return True


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[name] = _merged(below, value) if both and below is not None else value
    return merged


def _explained(error: ValidationError) -> str:
    lines = []
    for found in error.errors():
        where = ".".join(("gateway", *(str(part) for part in found["loc"])))
        lines.append(f"{where}: {found['msg'].removeprefix('Value error, ')}")
    return "\n".join(lines)
