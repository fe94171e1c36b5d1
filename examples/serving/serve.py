"""A service that reads pages of digits: POST an image, get 32 lines of 32 digits.

This process has HTTP and looks after the others: two that decode images and make batches, and one
that has the model. A decoder that dies is replaced, and gets again what it had not answered.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import connection, util
from typing import Any

import numpy as np
from transports import TRANSPORTS

MOST = 8  # pages in a batch
HEADER = 128  # bytes at the front of a frame: the count, the numbers of the requests
FAILED = -1  # instead of the count: one request, and why not is the rest
PATIENCE = 30.0  # seconds, for all that another process has to do, or a client to say
CLIENTS = 256  # connections at once, each of which has a thread
LARGEST = 16 << 20  # bytes of an image
SPAWN = multiprocessing.get_context("spawn")


def put_header(frame: Any, count: int, numbers: list[int]) -> Any:
    frame[: 8 * (1 + len(numbers))].view("i8")[:] = (count, *numbers)
    return frame[HEADER:]


def header(frame: Any) -> tuple[int, list[int]]:
    count, *numbers = (int(word) for word in frame[:HEADER].view("i8"))
    return count, numbers[: abs(count)]


def begin() -> None:
    """In a child: Ctrl-C is the parent's to handle, and a child does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # we only read
    parent: Any = multiprocessing.parent_process()

    def leave() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def run_decoder(transport: str, name: str) -> None:
    from model import DIGIT, PAGE, decode

    begin()
    inbox_of, out_to = TRANSPORTS[transport]
    inbox = inbox_of(name)
    batches, answers = out_to("model", PATIENCE), out_to("answers", PATIENCE)
    while True:
        requests = [inbox.receive(PATIENCE)]
        while requests[-1] is not None and len(requests) < MOST:
            requests.append(inbox.receive(0.002))
        requests = [request for request in requests if request is not None]
        if not requests:
            continue
        numbers = [header(request)[1][0] for request in requests]
        with batches.frame(HEADER + 4 * len(requests) * PAGE * DIGIT * DIGIT) as frame:
            pages = put_header(frame, len(numbers), numbers).view("f4").reshape(len(numbers), -1)
            for place, request in enumerate(requests):
                try:
                    decode(request[HEADER:], pages[place])
                except Exception as error:  # whatever a stranger's image makes of a library
                    frame[8 * (1 + place) : 8 * (2 + place)].view("i8")[0] = 0  # nobody's
                    refuse(answers, numbers[place], f"no page: {error}")
        del frame, pages, requests, request


def refuse(answers: Any, number: int, why: str) -> None:
    text = why.encode()
    with answers.frame(HEADER + len(text)) as frame:
        put_header(frame, FAILED, [number])[:] = np.frombuffer(text, "u1")


def run_model(transport: str, weights: str) -> None:
    from model import PAGE, load, scores

    begin()
    inbox_of, out_to = TRANSPORTS[transport]
    try:
        net = load(weights)
    except Exception as error:  # whatever the file makes of a library
        sys.exit(f"serving: {weights}: no weights: {str(error).partition(chr(10))[0]}")
    inbox, answers = inbox_of("model"), out_to("answers", PATIENCE)
    while True:
        batch = inbox.receive(PATIENCE)
        if batch is None:
            continue
        count, numbers = header(batch)
        read = scores(net, batch[HEADER:].view("f4")).argmax(1).numpy().astype("u1")
        del batch
        with answers.frame(HEADER + count * PAGE) as frame:
            put_header(frame, count, numbers)[:] = read


class Decoder:
    """A process that decodes, and the requests that it has not answered."""

    def __init__(self, service: Service, number: int) -> None:
        self.service, self.number, self.generation = service, number, 0
        self.lock = threading.Lock()  # of all below
        self.pending: dict[int, bytes] = {}
        self.start()

    def start(self) -> None:
        name = f"decoder-{self.number}-{self.generation}"
        self.process = self.service.start(run_decoder, name)
        self.out = self.service.out_to(name, PATIENCE)

    def replace(self) -> None:
        dead = self.process
        with self.lock:
            print(f"serving: decoder {self.number} (process {dead.pid}) ended with "
                  f"{dead.exitcode}: replaced", file=sys.stderr, flush=True)  # fmt: skip
            self.out.close()
            self.generation += 1
            self.start()
            for number in list(self.pending):
                self.send(number)

    def give(self, number: int, image: bytes) -> None:
        with self.lock:
            self.pending[number] = image
            self.send(number)

    def send(self, number: int) -> None:
        image = self.pending.get(number, b"")  # b"": its client has left
        try:
            with self.out.frame(HEADER + len(image)) as frame:
                put_header(frame, 1, [number])[:] = np.frombuffer(image, "u1")
        except OSError:
            pass  # it is dead, and will be replaced


class Service:
    def __init__(self, transport: str, weights: str) -> None:
        self.transport = transport
        self.inbox_of, self.out_to = TRANSPORTS[transport]
        self.waiting: dict[int, Future[tuple[int, bytes]]] = {}
        self.numbers = itertools.count(1)  # 0 is nobody's
        self.stopping = threading.Event()
        self.failed = False
        self.children: list[Any] = []
        self.answers = self.inbox_of("answers")
        threading.Thread(target=self.take_answers, daemon=True).start()
        self.model = self.start(run_model, weights)
        self.decoders = [Decoder(self, number) for number in range(2)]
        threading.Thread(target=self.look_after, daemon=True).start()

    def start(self, work: Any, argument: str) -> Any:
        child = SPAWN.Process(target=work, args=(self.transport, argument), daemon=True)
        child.start()
        self.children.append(child)
        return child

    def look_after(self) -> None:
        while not self.stopping.is_set():
            connection.wait([self.model.sentinel, *(d.process.sentinel for d in self.decoders)])
            if self.stopping.is_set():
                return
            if not self.model.is_alive():
                print(f"serving: the model (process {self.model.pid}) ended with "
                      f"{self.model.exitcode}: the service ends", file=sys.stderr, flush=True)  # fmt: skip
                return self.give_up()
            for decoder in self.decoders:
                try:
                    if not decoder.process.is_alive():
                        decoder.replace()
                except OSError as error:
                    print(f"serving: {error}: the service ends", file=sys.stderr, flush=True)
                    return self.give_up()

    def give_up(self) -> None:
        self.failed = True
        for number in list(self.waiting):
            self.resolve(number, 503, b"the service ends\n")
        os.kill(os.getpid(), signal.SIGTERM)

    def take_answers(self) -> None:
        while not self.stopping.is_set():
            frame = self.answers.receive(0.5)
            if frame is None:
                continue
            count, numbers = header(frame)
            if count == FAILED:
                self.resolve(numbers[0], 400, bytes(frame[HEADER:]) + b"\n")
                continue
            for number, page in zip(numbers, frame[HEADER:].reshape(count, 32, 32)):
                self.resolve(number, 200, b"".join(bytes(row + 48) + b"\n" for row in page))
            del frame, page

    def resolve(self, number: int, status: int, body: bytes) -> None:
        if (future := self.waiting.pop(number, None)) is not None:  # else answered before
            future.set_result((status, body))

    def answer(self, image: bytes) -> tuple[int, bytes]:
        number = next(self.numbers)
        decoder = self.decoders[number % len(self.decoders)]
        future = self.waiting[number] = Future()
        try:
            if self.failed:
                return 503, b"the service ends\n"
            decoder.give(number, image)
            return future.result(PATIENCE)
        except TimeoutError:
            return 504, b"no answer in time\n"
        finally:
            self.waiting.pop(number, None)
            decoder.pending.pop(number, None)

    def stop(self) -> None:
        self.stopping.set()
        for child in self.children:
            child.kill()
        for child in self.children:
            child.join()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of connections that nobody has accepted yet

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.room = threading.Semaphore(CLIENTS)
        super().__init__(("127.0.0.1", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.room.acquire(blocking=False):
            try:
                return super().process_request(request, client_address)
            except BaseException:  # no thread
                self.room.release()
                raise
        try:
            request.setblocking(False)
            request.send(b"HTTP/1.1 503 too many clients\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # else its client has left
            super().handle_error(request, client_address)


def handler_of(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE  # of each wait for the client

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def refuse(self, status: int, body: bytes) -> None:
            self.close_connection = True  # what follows is an image that nobody reads
            self.reply(status, body)

        def parse_request(self) -> bool:
            """Refuses a request whose end is unsure: what follows could pass for another one."""
            if not super().parse_request():
                return False
            lengths = len(self.headers.get_all("Content-Length", []))
            is_encoded = "Transfer-Encoding" in self.headers
            if self.headers.defects or lengths + is_encoded > 1:
                self.refuse(400, b"it does not say clearly where it ends: one Content-Length\n")
            elif is_encoded:
                self.refuse(501, b"no Transfer-Encoding is read: send a Content-Length\n")
            else:
                return True
            return False

        def body(self, least: int) -> bytes | None:
            """None: it has been refused, or its client has left."""
            length = self.headers.get("Content-Length", "").strip()
            if not length.isdecimal():
                self.refuse(400, b"it needs a Content-Length, in digits\n")
            elif len(length) > 20 or not least <= int(length) <= LARGEST:
                self.refuse(413, b"an image of 1 byte to 16 MiB\n")
            elif len(body := self.rfile.read(int(length))) == int(length):
                return body
            else:
                self.close_connection = True  # its client has left
            return None

        def do_POST(self) -> None:
            if (image := self.body(1)) is not None:
                self.reply(*service.answer(image))

        def do_GET(self) -> None:
            if "Content-Length" in self.headers and self.body(0) is None:
                return
            pids = [decoder.process.pid for decoder in service.decoders]
            self.reply(200, json.dumps({"decoders": pids, "model": service.model.pid}).encode())

        def log_message(self, *words: Any) -> None: ...

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=list(TRANSPORTS), default="gantry")
    parser.add_argument(
        "--port", type=int, choices=range(1 << 16), metavar="PORT", default=0,
        help="0: any that is free",
    )  # fmt: skip
    parser.add_argument("--weights", required=True, help="what model.py has written")
    given = parser.parse_args()
    if not os.access(given.weights, os.R_OK):
        sys.exit(f"serving: {given.weights}: cannot be read; model.py writes it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    here = os.environ["SERVING_DIR"] = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="serving-")
    tempfile.tempdir = None  # so that all of the children's files are in there, too
    util.Finalize(None, shutil.rmtree, (here, True), exitpriority=-200)  # when all else is done
    service = None
    try:
        service = Service(given.transport, given.weights)
        try:
            server = Server(given.port, handler_of(service))
        except OSError as error:
            sys.exit(f"serving: port {given.port}: {error.strerror}; take another one, or 0")
        print(f"serving: http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if service is not None:
            service.stop()
    sys.exit(service is None or service.failed)


if __name__ == "__main__":
    main()
