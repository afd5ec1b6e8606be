"""Encrypts segments at rest with AES-256-GCM, or only protects them against damage."""

import secrets
import zlib
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from engine.errors import TrafficError

_PLAIN, _SEALED = b"SGT1p", b"SGT1s"
_KEY_BYTES = 32
_NONCE_BYTES = 12
# Source: NIST SP 800-38D, 8.3: a key may have 2^32 random nonces of 96 bits.


class Seal:
    """Turns the content of a segment into that of its file, and back.

    Args:
        key: 32 bytes; None to store the content as it is, with a checksum.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._cipher = None if key is None else AESGCM(key)

    @classmethod
    def from_file(cls, path: Path | None) -> Self:
        """Read a key file; None gives a seal without a key.

        Raises:
            TrafficError: It cannot be read, or does not hold 32 bytes.
        """
        if path is None:
            return cls()
        try:
            key = path.read_bytes()
        except OSError as exc:
            raise TrafficError(f"{path}: the key cannot be read: {exc.strerror}") from exc
        if len(key) != _KEY_BYTES:
            raise TrafficError(
                f"{path}: found {len(key)} bytes, expected a key of {_KEY_BYTES} "
                f"(openssl rand -out FILE {_KEY_BYTES})"
            )
        return cls(key)

    def close(self, content: bytes, *, name: str) -> bytes:
        """Return what the file of this name is to hold."""
        if self._cipher is None:
            return _PLAIN + zlib.crc32(content).to_bytes(4, "big") + content
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _SEALED + nonce + self._cipher.encrypt(nonce, content, name.encode())

    def open(self, stored: bytes, *, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            TrafficError: It is damaged, has been renamed, or was written with another key or none.
        """
        mark, rest = stored[: len(_PLAIN)], stored[len(_PLAIN) :]
        if mark != (_PLAIN if self._cipher is None else _SEALED):
            raise TrafficError(f"{name}: damaged, or encrypted where it should not be, or not")
        if self._cipher is None:
            if zlib.crc32(rest[4:]).to_bytes(4, "big") != rest[:4]:
                raise TrafficError(f"{name}: damaged")
            return rest[4:]
        try:
            return self._cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError) as exc:
            raise TrafficError(f"{name}: damaged, or written with another key") from exc
