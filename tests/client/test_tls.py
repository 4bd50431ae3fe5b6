"""Encrypted connections: whom the client trusts, and that they end as early as others."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from client.pages import PAGE_TEXT, TOKEN

import casekit as ck
from casekit.errors import TransportError

BODY = PAGE_TEXT.encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


class Encrypted:
    """A server with a certificate of its own, that may keep its clients waiting."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.listener.getsockname()[1]}"
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()
        self.heard: list[bytes] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self.threads[-1].start()

    def _serve(self, plain: socket.socket) -> None:
        with plain, suppress(OSError), self.context.wrap_socket(plain, server_side=True) as connection:
            while request := connection.recv(65536):
                self.heard.append(request)
                self.asked.set()
                self.answers.wait(30)
                connection.sendall(HEAD + BODY)

    def close(self) -> None:
        """End all threads."""
        self.answers.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate of localhost, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    what = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", *names]
    subprocess.run([openssl, *what, "-out", made[0], "-keyout", made[1]], check=True, capture_output=True)
    return made


@pytest.fixture
def server(certificate: tuple[Path, Path]) -> Iterator[Encrypted]:
    """Start the server."""
    running = Encrypted(*certificate)
    yield running
    running.close()


def test_a_stranger_gets_no_token(server: Encrypted) -> None:
    """A certificate that nobody vouches for must end the load after one attempt, before anything was sent."""
    with (
        ck.Client(server.url, token=TOKEN) as client,
        pytest.raises(TransportError, match=r"no trusted certificate .*SSL_CERT_FILE.* \(1 attempt\)"),
    ):
        ck.load_test_set("a", "1.0.0", client=client)
    assert server.heard == []


def test_certificates_of_the_environment_are_trusted(
    monkeypatch: pytest.MonkeyPatch, server: Encrypted, certificate: tuple[Path, Path]
) -> None:
    """A certificate that the environment names must be enough."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with ck.Client(server.url, token=TOKEN) as client:
        assert len(ck.load_test_set("a", "1.0.0", client=client)) == 2
    assert f"Authorization: Bearer {TOKEN}".encode() in server.heard[0]


def test_an_encrypted_request_ends_when_it_is_aborted(
    monkeypatch: pytest.MonkeyPatch, server: Encrypted, certificate: tuple[Path, Path]
) -> None:
    """Closing the client must end a request that waits behind encryption, without a second attempt."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    server.answers.clear()
    client = ck.Client(server.url, token=TOKEN)

    def close() -> None:
        server.asked.wait(10)
        client.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(TransportError, match="the client was closed"):
        ck.load_test_set("a", "1.0.0", client=client)
    thread.join()
    assert len(server.heard) == 1
