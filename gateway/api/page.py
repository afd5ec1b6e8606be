"""`GET /`: the page for people, and its files below `/page/`.

They are the same for everybody and need no key; the page asks the API for all else. URLs in them
are relative, so that a proxy may add a prefix.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent.parent / "page"
_FIRST = "index.html"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Browsers ask each time whether a file has changed; most answers are 304 without a body.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the page.

    Attributes:
        body: Its bytes.
        packed: The same, compressed with gzip.
        headers: Of every answer with it.
    """

    body: bytes
    packed: bytes
    headers: dict[str, str]

    async def answer(self, request: Request) -> Response:
        """Send the file, or 304 if the browser has it."""
        known = request.headers.get("if-none-match", "")
        if self.headers["etag"] in (tag.strip() for tag in known.split(",")):
            return Response(status_code=304, headers=self.headers)
        if _accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(self.packed, headers={**self.headers, "content-encoding": "gzip"})
        return Response(self.body, headers=self.headers)


def page_routes() -> list[Route]:
    """The routes: `/`, and one for each file, which is read now."""
    known = (path for path in sorted(_FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES)
    files = {path.name: _read(path) for path in known}
    first = files.pop(_FIRST)
    return [
        Route("/", first.answer, methods=["GET"]),
        *(Route(f"/page/{name}", file.answer, methods=["GET"]) for name, file in files.items()),
    ]


def _read(path: Path) -> _File:
    body = path.read_bytes()
    # Weak: the same for the compressed body.
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {**_HEADERS, "etag": tag, "content-type": _MEDIA_TYPES[path.suffix]}
    return _File(body, gzip.compress(body, mtime=0), headers)


def _accepts_gzip(header: str) -> bool:
    """Read `Accept-Encoding`. Source: RFC 9110, section 12.5.3."""
    for choice in header.split(","):
        name, _, weight = choice.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
