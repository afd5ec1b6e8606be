"""`specgate top`: what a running gateway does, in the terminal, from its `GET /live`."""

import argparse
import io
import sys
import time

import httpx
from pydantic import ValidationError
from rich.console import Console, RenderableType
from rich.live import Live

from gateway.cli.connection import add_connection_arguments, connect
from gateway.cli.frame import Screen, build_frame
from gateway.cli.live_page import Page

_ASK_SECONDS = 5.0
_REFRESH_SECONDS = 1.0


class TopError(Exception):
    """The gateway does not answer, or what answers is no gateway with a `/live`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_connection_arguments(parser, key="a key, if something in front asks for one")
    parser.add_argument(
        "--once", action="store_true", help="print one frame, as if the output were no terminal"
    )


def run(chosen: argparse.Namespace) -> int:
    """Watch until Ctrl-C; status 1 if the gateway cannot be reached at first."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False)
    with connect(chosen, timeout_seconds=_ASK_SECONDS) as client:
        url = str(client.base_url).rstrip("/")
        try:
            page = _ask(client)
        except TopError as error:
            sys.stderr.write(f"{url}: {error}\n")
            return 1
        if chosen.once or not console.is_terminal or console.is_dumb_terminal:
            screen = Screen(console.width, None, _has_unicode(console))
            console.print(build_frame(page, screen, url=url, trouble=None))
            return 0
        _watch(client, console, page, url)
    return 0


def _watch(client: httpx.Client, console: Console, page: Page, url: str) -> None:
    """Show frames until Ctrl-C. While the gateway does not answer, its last figures stay."""
    trouble: str | None = None

    def frame() -> RenderableType:
        screen = Screen(*console.size, _has_unicode(console))
        return build_frame(page, screen, url=url, trouble=trouble)

    answered = time.monotonic()
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(frame(), refresh=True)
            time.sleep(_REFRESH_SECONDS)
            try:
                page, trouble = _ask(client), None
                answered = time.monotonic()
            except TopError as error:
                silent = time.monotonic() - answered
                trouble = f"no answer for {silent:.0f} s, trying again: {error}"


def _ask(client: httpx.Client) -> Page:
    try:
        answer = client.get("/live")
        return Page.model_validate_json(answer.content)
    except httpx.HTTPError as error:
        raise TopError(str(error)) from error
    except ValidationError as error:
        status = answer.status_code
        raise TopError(f"answered {status} on /live; is this a specgate?") from error


def _has_unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")
