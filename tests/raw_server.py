"""A server that answers every connection with the same bytes, whatever it is asked."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def raw_server(response: bytes, asked: list[bytes] | None = None) -> Iterator[str]:
    """Its address; what it is asked is appended to `asked`."""

    def answer() -> None:
        with suppress(OSError):  # the end of the test
            while True:
                with listening.accept()[0] as connection:
                    request = connection.recv(65536)
                    if asked is not None:
                        asked.append(request)
                    connection.sendall(response)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):  # else what is left to read resets it
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
