"""The section `serve` of the configuration file: where the page for people is, and who may see it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from daemon.config.values import ListenAnywhere, Section, is_loopback


def _check_host(name: str) -> str:
    if not name or not all(part and part.replace("-", "").isalnum() for part in name.split(".")):
        raise ValueError(f"{name!r} is not a host name: write it as in the address, without the port")
    return name.lower()


HostName = Annotated[str, AfterValidator(_check_host)]


class ServeSettings(Section):
    """The page for people, served by `narrated serve`."""

    listen: ListenAnywhere = ("127.0.0.1", 8470)
    hosts: Annotated[tuple[HostName, ...], Field(strict=False)] = ()  # beside localhost and addresses
    passwords: str | None = None  # a file, or ${cred:NAME}
    proxy: bool = False  # one on this machine passes requests on; its X-Forwarded-For counts

    @property
    def loopback(self) -> bool:
        """True where only this machine can connect."""
        return is_loopback(self.listen[0])

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        if not self.loopback and self.passwords is None:
            raise ValueError("listen: others can connect there, so give passwords, or listen on 127.0.0.1")
        if self.proxy and self.passwords is None:
            raise ValueError("proxy: others connect through it, so give passwords")
        if self.proxy and not self.loopback:
            raise ValueError("proxy: listen on 127.0.0.1, so that the proxy cannot be bypassed")
        return self
