"""How the server is set up: where it listens, whom it lets in, and how much it takes."""

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import ConfigError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and all together, may ask for."""

    body: int = 1_000_000
    """Bytes of a request."""
    headers: int = 16_384
    texts: int = 64
    characters: int = 5_000
    """Of each text."""
    depth: int = 32
    """Of JSON in JSON."""
    requests: int = 64
    """Answered or waiting at the same time; the next is told to come again."""
    seconds: float = 60.0
    """Until an answer is given up."""
    drain: float = 30.0
    """Seconds that a stopping server gives the requests that it has."""
    n: int = 4
    alternatives: int = 5
    beam: int = 10


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """All that `clearhead serve` is told; they pass to worker processes as they are."""

    runs: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    key_hash: str = ""
    """SHA-256 of the API key; the key itself is not kept."""
    no_auth: bool = False
    hosts: tuple[str, ...] = ()
    """Further names that the server may be called by (the header Host)."""
    origins: tuple[str, ...] = ()
    """Pages of other hosts that may ask (CORS)."""
    memory: int = 0
    """Bytes for models; 0: no limit."""
    lazy: bool = False
    workers: int = 1
    n_decoders: int = 0
    """Processes that another engine starts for each translator."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not (self.name in LOOPBACK or self.key_hash or self.no_auth):
            raise ConfigError(
                f"Others could reach the server at {self.host}, and there is no API key.",
                "Give --api-key KEY; or type out --no-auth, if everybody may use it.",
            )

    @property
    def name(self) -> str:
        """The address as the header Host has it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def names(self) -> tuple[str, ...]:
        """What the header Host may say, without the port."""
        return (*LOOPBACK, self.name, *self.hosts)

    def opens(self, key: str) -> bool:
        """Whether a key is the right one; how long the comparison takes tells nothing."""
        return hmac.compare_digest(hash_of(key), self.key_hash)


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
