"""Connections to Redis, and its errors in words without secrets."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis import exceptions as refusals
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.redaction import redact

TIMEOUT_S = 5.0  # longest wait for a server to connect or to answer

_LOST = (refusals.ConnectionError, refusals.TimeoutError, refusals.WatchError, OSError)
"""redis-py says WatchError also where the connection was lost in a transaction."""

_PASSING = (refusals.OutOfMemoryError, refusals.ReadOnlyError, refusals.BusyLoadingError)
_PASSING_CODES = (
    *("OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY"),
    *("NOAUTH", "WRONGPASS"),
)

_BEFORE = re.compile(r".*(of pipeline caused error|Transaction discarded because of): ", re.DOTALL)


class PublisherError(Exception):
    """Publishing or subscribing failed; the message holds no secret and says what to do."""


class ServerAwayError(PublisherError):
    """The server cannot be reached or takes no writes now: try again later."""


class RedisServer:
    """A server; may be used by any thread, and connects at the first command.

    `url` has its password, ``redis://``, ``rediss://`` (TLS) or ``unix:///path``; a function is called again
    after each error. A malformed one raises `PublisherError`. Answers are `text`, else bytes.
    """

    def __init__(
        self, url: str | Callable[[], str], timeout_s: float = TIMEOUT_S, *, text: bool = True
    ) -> None:
        self._url, self._timeout_s, self._text = url if callable(url) else lambda: url, timeout_s, text
        self._connected_to = self._url()
        self._client = self._connect(self._connected_to)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return redact(self._connected_to)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """The client; redis-py's errors in the block become ours, without the password.

        ServerAwayError where it is unreachable, or does not take the command now (loading, full, read-only,
        password changed), PublisherError where it refuses otherwise.
        """
        client, url = self._client, self._connected_to
        try:
            yield client
        except (refusals.RedisError, OSError) as error:
            if isinstance(error, _LOST):
                client.connection_pool.disconnect()  # a half-read connection holds no answer to us
            self._renew(client)
            raise _refusal(error, url) from None

    def close(self) -> None:
        self._client.close()

    def _connect(self, url: str) -> redis.Redis:
        try:
            (urlsplit(url).hostname or "").encode("idna")
            client = redis.Redis.from_url(
                url,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                retry=Retry(NoBackoff(), 0),  # only the caller knows when to stop trying
                decode_responses=self._text,
                encoding_errors="replace",  # what others put on a stream need not be text
                protocol=2,  # one shape of answers from Redis 6.2 to 8
            )
            pool = client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # reads the URL's options, and does not connect
        except (ValueError, TypeError):
            advice = "write redis://user:password@host:6379/0 or unix:///path/to/socket"
            raise PublisherError(f"the Redis URL {redact(url)} is malformed; {advice}") from None
        return client

    def _renew(self, client: redis.Redis) -> None:
        with self._lock:
            try:
                now = self._url()
                if client is not self._client or now == self._connected_to:
                    return
                self._client = self._connect(now)
            except Exception:  # noqa: BLE001 - its file is being replaced: keep the old one
                return
            self._connected_to = now
        client.close()


def _refusal(error: Exception, url: str) -> PublisherError:
    name, words = redact(url), _words(error, url)
    if isinstance(error, refusals.AuthenticationError):
        return ServerAwayError(f"{name} refuses the user or password; check redis.url")
    if isinstance(error, _LOST):
        return ServerAwayError(f"{name} cannot be reached or does not answer: {words}")
    if isinstance(error, refusals.NoPermissionError):
        rule = f"ACL SETUSER {unquote(urlsplit(url).username or 'default')} {_acl_rule(str(error))}"
        return PublisherError(f"{name} refuses its user: {words}. An administrator can grant it: {rule}")
    if isinstance(error, _PASSING) or words.startswith(_PASSING_CODES):
        return ServerAwayError(f"{name} is refusing writes: {words}")
    return PublisherError(f"{name} refused: {words}")


def _acl_rule(refusal: str) -> str:
    if command := re.search(r"'([\w|-]+)' command", refusal):
        return f"+{command[1].lower()}"
    return "&narrated:*" if "channel" in refusal else "~narrated:*"


def _words(error: Exception, url: str) -> str:
    """The server's message without the password, and without what a pipeline and its EXEC put before it."""
    words = redact(_BEFORE.sub("", str(error) or type(error).__name__))
    parts = urlsplit(url)
    for secret in filter(None, [parts.password, *parse_qs(parts.query).get("password", [])]):
        words = words.replace(secret, "***").replace(unquote(secret), "***")
    return words
