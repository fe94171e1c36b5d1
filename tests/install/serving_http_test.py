"""What the service of examples/serving does with clients that are slow, leave, or say nonsense.

usage: serving_http_test.py EXAMPLE_DIR (no model takes part: images come back as they are)
"""

from __future__ import annotations

import contextlib
import io
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
    check_leavers()
    check_slow_clients()
assert told.getvalue() == "", told.getvalue()
print("serving_http_test: passed")
