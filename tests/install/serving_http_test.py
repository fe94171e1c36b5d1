"""What the service of examples/serving does with clients that are slow, leave, or say nonsense.

usage: serving_http_test.py EXAMPLE_DIR (no model takes part: images come back as they are)
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import socket
import sys
import threading
from typing import Any

sys.path.insert(0, sys.argv[1])
import serve  # noqa: E402

serve.PATIENCE = 0.2
serve.CLIENTS = 4
asked: list[bytes] = []


class Echo:
    decoders: list[Any] = []
    model = multiprocessing.current_process()

    def answer(self, image: bytes) -> tuple[int, bytes]:
        asked.append(image)
        return 200, image


class Server(serve.Server):
    def __init__(self, *words: Any) -> None:
        self.left = threading.Semaphore(0)  # handlers that have ended
        super().__init__(*words)

    def process_request_thread(self, *words: Any) -> None:
        super().process_request_thread(*words)
        self.left.release()


def connect() -> socket.socket:
    return socket.create_connection(server.server_address, timeout=60)


def all_of(client: socket.socket) -> bytes:
    said = b""
    while part := client.recv(1 << 16):
        said += part
    return said


def say(words: bytes) -> bytes:
    """All that is answered until the service, or else its patience, ends the connection."""
    with connect() as client:
        client.sendall(words)
        said = all_of(client)
    assert server.left.acquire(timeout=60)
    return said


def post(length: bytes, body: bytes = b"") -> bytes:
    return say(b"POST / HTTP/1.1\r\n" + length + b"\r\n" + body)


def check_lengths() -> None:
    words = [b"abc", b"1e3", b"", b" ", b"1_0", b"+3", b"-1", b"0x10", "\u0663".encode()]
    for word in words:
        said = post(b"Content-Length: " + word + b"\r\n")
        assert said.startswith(b"HTTP/1.1 400 "), (word, said)
    assert post(b"").startswith(b"HTTP/1.1 400 ")
    for word in (b"0", b"16777217", b"9" * 5000):
        said = post(b"Content-Length: " + word + b"\r\n")
        assert said.startswith(b"HTTP/1.1 413 "), (word, said)
    assert not asked, asked
    said = post(b"Content-Length: 5\r\n", b"image")
    assert said.startswith(b"HTTP/1.1 200 ") and said.endswith(b"\r\n\r\nimage"), said
    assert asked == [b"image"]


def replies(words: bytes) -> list[bytes]:
    """The status of each reply."""
    return [part[:3] for part in say(words).split(b"HTTP/1.1 ")[1:]]


def check_ends_of_requests() -> None:
    """What is no request of its own is not answered as one; nor is a body that nobody has read."""
    hidden = b"GET / HTTP/1.1\r\nHost: hidden\r\n\r\n"
    begun = len(asked)
    for status, words in (
        (b"501", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (b"501", b"transfer-encoding: identity\r\n\r\n"),
        (b"400", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (b"400", b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
        (b"400", b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n"),
        (b"400", b"Content-Length: 2, 2\r\n\r\n"),
        (b"400", b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
    ):
        for method in (b"POST", b"GET"):
            said = replies(method + b" / HTTP/1.1\r\n" + words + hidden)
            assert said == [status], (method, words, said)
    assert len(asked) == begun, asked
    told = b"Content-Length: %d\r\n" % len(hidden)
    last = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert replies(b"GET / HTTP/1.1\r\n" + told + b"\r\n" + hidden + last) == [b"200", b"200"]
    assert replies(b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + last) == [b"200", b"200"]
    assert replies(b"GET / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n" + hidden) == [b"413"]
    assert replies(b"PUT / HTTP/1.1\r\n" + told + b"\r\n" + hidden) == [b"501"]


def check_leavers() -> None:
    """A body that is cut short is no image; whoever resets the connection is no traceback."""
    with connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nima")
        client.shutdown(socket.SHUT_WR)
        assert all_of(client) == b""
    assert server.left.acquire(timeout=60)
    client = connect()
    client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nim")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()  # a reset
    assert server.left.acquire(timeout=60)
    assert asked == [b"image"], asked


def check_slow_clients() -> None:
    """Half-sent images are given up, and a connection too many is refused meanwhile."""
    serve_half = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nim"
    for begin in (serve_half, b"POST / HT", b""):
        assert say(begin) == b"", begin
    for _ in range(serve.CLIENTS):
        assert server.room.acquire(blocking=False)
    with connect() as client:
        assert all_of(client).startswith(b"HTTP/1.1 503 ")
    server.room.release(serve.CLIENTS)
    assert post(b"Content-Length: 2\r\n", b"ok").endswith(b"ok")
    for _ in range(serve.CLIENTS):  # every place is free again
        assert server.room.acquire(blocking=False)
    assert not server.room.acquire(blocking=False)


server: Any = Server(0, serve.handler_of(Echo()))
threading.Thread(target=server.serve_forever, daemon=True).start()
with contextlib.redirect_stderr(io.StringIO()) as told:
    check_lengths()
    check_ends_of_requests()
    check_leavers()
    check_slow_clients()
assert told.getvalue() == "", told.getvalue()
print("serving_http_test: passed")
