"""The one place that opens connections to Redis and puts its errors into words without secrets."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import redis
from redis import exceptions as refusals
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.redaction import redacted

_PASSING = (
    refusals.OutOfMemoryError,
    refusals.ReadOnlyError,
    refusals.BusyLoadingError,
)
_PASSING_CODES = (
    "MISCONF",
    "NOREPLICAS",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSY",
    "NOAUTH",
    "WRONGPASS",
)


class PublisherError(Exception):
    """Publishing or subscribing failed; the message holds no secret and says what to do."""


class ServerAwayError(PublisherError):
    """The server cannot be reached or takes no writes now: try again later."""


class RightsError(PublisherError):
    """The server's user lacks a right; the message says which one an administrator has to grant."""


def connect(url: str, timeout_s: float, *, text: bool = True) -> redis.Redis:
    """A client for `url` that connects at its first command and never tries again by itself.

    Trying again is the caller's business: it alone knows when to stop.

    Raises:
        PublisherError: the URL is malformed.
    """
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=text,
            encoding_errors="replace",  # what others put on a stream need not be text
            protocol=2,  # one shape of answers from Redis 6.2 to 8
        )
    except (ValueError, TypeError) as error:
        raise PublisherError(
            f"the Redis URL {redacted(url)} is malformed; "
            "write redis://user:password@host:6379/0 or unix:///path/to/socket"
        ) from _without_secrets(error, url)


class RedisServer:
    """A server whose URL is asked for again after each refusal; for any number of threads.

    Args:
        url: asks for the URL, with its password.
        timeout_s: longest wait for an answer.
        text: answers are text, else bytes.

    Raises:
        PublisherError: the URL is malformed.
    """

    def __init__(self, url: Callable[[], str], timeout_s: float, *, text: bool = True) -> None:
        self._url, self._timeout_s, self._text = url, timeout_s, text
        self._connected_to = url()
        self._client = connect(self._connected_to, timeout_s, text=text)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Its URL without credentials."""
        return redacted(self._connected_to)

    @contextmanager
    def asked(self) -> Iterator[redis.Redis]:
        """The client, for some commands; raises as `worded`."""
        client = self._client
        try:
            with worded(client, self._connected_to):
                yield client
        except (ServerAwayError, RightsError):  # another password, or another user, may stand there now
            self._renew(client)
            raise

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _renew(self, client: redis.Redis) -> None:
        """Connect as the URL says by now: a changed password may stand in its file."""
        with self._lock:
            try:
                now = self._url()
                if client is not self._client or now == self._connected_to:
                    return
                self._client = connect(now, self._timeout_s, text=self._text)
            except Exception:  # noqa: BLE001 - a file that is being replaced: what was read before goes on
                return
            self._connected_to = now
        client.close()


@contextmanager
def worded(client: redis.Redis, url: str) -> Iterator[None]:
    """Errors of Redis leave the block as `PublisherError`, without the password.

    Raises:
        ServerAwayError: unreachable, or not taking the command now (loading, full, read-only, password
            changed): an operator or time can put it right while the caller tries again.
        RightsError: the user of the URL may not do that.
        PublisherError: anything else that the server refuses.
    """
    name = redacted(url)
    try:
        yield
    except refusals.AuthenticationError as error:
        raise ServerAwayError(f"{name} refuses the user or password; check redis.url") from _without_secrets(
            error, url
        )
    except (refusals.ConnectionError, refusals.TimeoutError, refusals.WatchError, OSError) as error:
        # redis-py says WatchError also where the connection was lost in a transaction.
        client.connection_pool.disconnect()  # what stands in a half-read connection is no answer to us
        raise ServerAwayError(
            f"{name} cannot be reached or does not answer: {_words(error, url)}"
        ) from _without_secrets(error, url)
    except refusals.NoPermissionError as error:
        user = unquote(urlsplit(url).username or "default")
        raise RightsError(
            f"{name} refuses its user: {_words(error, url)}. An administrator can grant it: "
            f"ACL SETUSER {user} {_lacking(str(error))}; docs/operations.md lists all that is needed"
        ) from None
    except refusals.RedisError as error:
        words = _words(error, url)
        if isinstance(error, _PASSING) or words.startswith(_PASSING_CODES):
            raise ServerAwayError(f"{name} takes no writes now: {words}") from None
        raise PublisherError(f"{name} refused: {words}") from None


def _lacking(refusal: str) -> str:
    """The rule that would have let a command pass, by the server's words."""
    if command := re.search(r"'([\w|-]+)' command", refusal):
        return f"+{command[1].lower()}"
    return "&narrated:*" if "channel" in refusal else "~narrated:*"


def _words(error: Exception, url: str) -> str:
    """The server's own words, without the command that redis-py shows of a pipeline, and the password."""
    words = redacted((str(error) or type(error).__name__).rpartition("of pipeline caused error: ")[2])
    for secret in _secrets(url):
        words = words.replace(secret, "***")
    return words


def _without_secrets(error: Exception, url: str) -> Exception | None:
    """The error as a cause to show in a traceback, None where its text holds the password."""
    return None if any(secret in str(error) for secret in (url, *_secrets(url))) else error


def _secrets(url: str) -> list[str]:
    """The password in `url`, as written and decoded."""
    authority = url.partition("://")[2].rpartition("@")[0]
    found = [authority.partition(":")[2]]
    found += [
        part.partition("=")[2] for part in url.partition("?")[2].split("&") if part.startswith("password=")
    ]
    return [secret for raw in found if raw for secret in (raw, unquote(raw))]
