"""Secrets are named in the configuration, kept elsewhere, and put in only where a connection is opened."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

CREDENTIALS = "/etc/narrated"
"""Where ``${cred:NAME}`` is read outside a unit, as by `check-config` and `probe`."""

_PLACEHOLDER = re.compile(r"\$\{([^}:]*):?([^}]*)\}")
_MISSPELT = re.compile(r"\$\{[^@/]*|\$\((?:env|file|cred):[^@/]*|(?<=://)\$\w+(?=@)")
_CREDENTIAL_NAME = re.compile(r"^[A-Za-z0-9._-]+$")
_SHORTEST_HIDDEN = 4
_IN_URL = re.compile(
    r"://[^/\s]*?:(.*)@|[?&](?:pass(?:word|wd)?|pwd|token|key|secret)=([^&\s]+)", re.IGNORECASE
)
_revealed: set[str] = set()


class SecretError(ValueError):
    """A secret cannot be had; the message names it and says what to do, and never holds its value."""


def hide_secrets(text: str) -> str:
    """The text with every secret that this process has ever put in replaced by ``***``."""
    for secret in sorted(_revealed.copy(), key=len, reverse=True):
        if len(secret) >= _SHORTEST_HIDDEN:
            text = text.replace(secret, "***")
    return text


def reveal(text: str) -> str:
    """The text with secrets put in place of ``${env:NAME}``, ``${file:PATH}`` and ``${cred:NAME}``.

    It is for opening a connection: never print it. Inside a URL a secret is percent-encoded (but for ``:``,
    so that it may hold ``user:password``); a secret that is the whole text is taken as it stands.
    A placeholder that is misspelt, or whose secret is absent or empty, raises `SecretError`.
    """
    in_url = "://" in text

    def put_in(match: re.Match[str]) -> str:
        value = _read(match.group(1), match.group(2), match.group(0))
        encoded = quote(value, safe=":", errors="surrogateescape")  # it need not be UTF-8
        _revealed.update({value, encoded, *value.split(":", 1)[1:]})
        return encoded if in_url else value

    if misspelt := _MISSPELT.search(_PLACEHOLDER.sub("", text)):
        raise _no_secret(misspelt[0])
    revealed = _PLACEHOLDER.sub(put_in, text)
    if in_url:
        passwords = [part for groups in _IN_URL.findall(revealed) for part in groups if part]
        passwords += [part.split("@")[0] for part in passwords]  # another @ may follow the host
        _revealed.update(passwords, map(unquote, passwords))
    return revealed


def _read(kind: str, name: str, placeholder: str) -> str:
    if not name:
        raise _no_secret(placeholder)
    if kind == "env":
        value, where = os.environ.get(name, ""), f"set the environment variable {name}"
    elif kind == "file":
        value, where = _first_line(Path(name)), f"write it to {name}, readable for this user"
    elif kind == "cred":
        path = credential_file(name)
        value = _first_line(path)
        where = f"give the unit LoadCredential={name}:/etc/narrated/{name}" + (
            "" if "CREDENTIALS_DIRECTORY" in os.environ else f"; outside a unit, as root, {path} is read"
        )
    else:
        raise _no_secret(placeholder)
    if not value:
        raise SecretError(f"the secret {placeholder} is absent or empty: {where}")
    return value


def _no_secret(text: str) -> SecretError:
    return SecretError(f"{text} is not a secret: write ${{env:NAME}}, ${{file:PATH}} or ${{cred:NAME}}")


def secret_file(text: str) -> Path:
    """The file that a configuration means: a path, or ``${cred:NAME}``."""
    named = re.fullmatch(r"\$\{(cred|file):([^}]+)\}", text)
    if named and named[1] == "cred":
        return credential_file(named[2])
    return Path(named[2] if named else text)


def credential_file(name: str) -> Path:
    """Where a systemd credential lies, in a unit or outside."""
    if not _CREDENTIAL_NAME.match(name):
        raise SecretError(f"${{cred:{name}}}: a credential's name has letters, digits, '.', '_' and '-'")
    return Path(os.environ.get("CREDENTIALS_DIRECTORY", CREDENTIALS), name)


def absent_secrets(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What is wrong with the secrets in texts, which stand under keys of the file."""
    for key, text in texts:
        try:
            reveal(text)
        except SecretError as error:
            yield f"{key}: {error}"


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    return lines[0].strip() if lines else ""
