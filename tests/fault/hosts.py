"""A channel between two hosts: its processes, and what must hold for each of them. README.md"""
import collections
import os
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time

TOKEN = "a token that nobody else knows"
FOR_ALL_SESSIONS = 2  # descriptors, and threads, that a bridge makes with its first session and keeps
HUNG_S = 15  # beyond all that the ends were told to wait for
# Who is started where, in this order; the last but one sends, the last receives. The one behind
# the @ has the link to the bridge.
SCENARIOS = {
    "consumer": ("bridge there", "put there", "get here@"),
    "producer": ("bridge there", "get there", "put here@"),
    "mirror": ("bridge there", "mirror here@", "put there", "get here"),
}


class Part:
    """A process, and what it says at which moment."""

    def __init__(self, host, command, environment, source, sink):
        self.host = host
        self.process = subprocess.Popen(command, stdin=source, stdout=sink, stderr=subprocess.PIPE,
                                        env=environment)
        self.said = []  # (when, line)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))

    def runs(self):
        return self.process.poll() is None

    def wait(self, most_s):
        """False: it has not ended."""
        try:
            self.process.wait(most_s)
        except subprocess.TimeoutExpired:
            return False
        self.listener.join()
        return True

    def errors(self):
        return [(when, line) for when, line in self.said if line.startswith("gantry:")]

    def census(self):
        """How many descriptors and threads it has."""
        folder = f"/proc/{self.process.pid}"
        return [len(os.listdir(f"{folder}/{what}")) for what in ("fd", "task")]

    def descriptors(self):
        folder = f"/proc/{self.process.pid}/fd"
        return sorted(os.readlink(f"{folder}/{one}") for one in os.listdir(folder))

    def end(self):
        if self.runs():
            self.process.kill()
        self.process.wait()
        self.listener.join()
        self.process.stderr.close()


class Transfer:
    """Bytes that cannot be guessed, from put to get by way of a bridge."""

    host_address = "127.0.0.1"  # of the bridge
    lasts_s = 0.5  # so that there is something to strike

    def __init__(self, program, seed):
        self.rng = random.Random(seed)
        self.program = program
        self.scenario = self.rng.choice(sorted(SCENARIOS))
        self.message_bytes = self.rng.choice([1000, 3000, 65_536, 300_000, 1 << 20])
        self.bytes = self.rng.choice([8000, 1_600_000, 8_000_000])
        self.patience_s = 5
        self.stall_s = 10
        self.parts = {}
        self.trouble = []
        self.times = []  # (what, seconds)
        self.struck = False

    def play(self):
        with tempfile.TemporaryDirectory(prefix="gantry-fault-") as self.folder:
            try:
                self.start()
                self.strike()
                self.look()
            finally:
                for part in self.parts.values():
                    part.end()
        return self

    # ---- who takes part

    def linked(self):
        """Who has the link to the bridge."""
        return next(role.split()[0] for role in SCENARIOS[self.scenario] if role.endswith("@"))

    def space(self, host):
        """What a command has in front to run on that host."""
        return []

    def environment(self, what):
        return {}

    def start(self):
        for host in ("here", "there"):
            os.mkdir(f"{self.folder}/{host}", 0o700)
        with open(f"{self.folder}/token", "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(TOKEN + "\n")
        self.sent = self.rng.randbytes(self.bytes)
        for role in SCENARIOS[self.scenario]:
            self.start_one(*role.split())

    def start_one(self, what, where):
        host = where.rstrip("@")
        name = f"numbers@{self.address}" if where.endswith("@") else "numbers"
        words = {"bridge": ["--listen", f"{self.host_address}:0"], "mirror": ["--once", name],
                 "put": [name, "--message-size", str(self.message_bytes)]}.get(what, [name])
        if what == "bridge" or where.endswith("@"):
            words += ["--patience", str(self.patience_s), "--stall-limit", str(self.stall_s)]
        environment = dict(os.environ, GANTRY_DIR=f"{self.folder}/{host}",
                           GANTRY_TOKEN_FILE=f"{self.folder}/token", **self.environment(what))
        source = subprocess.PIPE if what == "put" else subprocess.DEVNULL
        with open(f"{self.folder}/got" if what == "get" else os.devnull, "wb") as sink:
            part = Part(host, [*self.space(host), self.program, what, *words], environment, source, sink)
        self.parts[what] = part
        if what == "put":
            threading.Thread(target=self.feed, args=(part.process.stdin,), daemon=True).start()
        if what == "bridge":
            self.address = self.await_address()
            self.census = part.census()

    def feed(self, pipe):
        steps = max(1, int(self.lasts_s / 0.01))
        piece = len(self.sent) // steps + 1
        try:
            for at in range(0, len(self.sent), piece):
                pipe.write(self.sent[at : at + piece])
                pipe.flush()
                time.sleep(0.01)
            pipe.close()
        except OSError:
            pass  # it is gone

    def await_address(self):
        bridge = self.parts["bridge"]
        while True:
            for _, line in list(bridge.said):
                if "listening on " in line:
                    return line.split("listening on ")[1].split(";")[0]
            if not bridge.runs():
                raise RuntimeError(f"the bridge ended: {bridge.said}")
            time.sleep(0.005)

    def got(self):
        with open(f"{self.folder}/got", "rb") as file:
            return file.read()

    def await_first(self):
        """Until something has arrived; False: it never does."""
        end = time.monotonic() + HUNG_S
        while os.path.getsize(f"{self.folder}/got") == 0:
            if time.monotonic() > end:
                said = {what: part.said for what, part in self.parts.items()}
                self.trouble.append(f"nothing arrives: {said}")
                return False
            time.sleep(0.002)
        return True

    # ---- what must hold

    def await_ends(self, most_s, but=()):
        """Who did not end in that time, among put, get and mirror."""
        end = time.monotonic() + most_s + HUNG_S
        names = [what for what in self.parts if what != "bridge" and what not in but]
        return [what for what in names if not self.parts[what].wait(max(0.01, end - time.monotonic()))]

    def look_at_line(self, what, *words):
        """One line, with all of these words."""
        lines = [line for _, line in self.parts[what].errors()]
        if what == "mirror":
            lines = lines[-1:]  # before it says how it gets on
        if len(lines) != 1:
            self.trouble.append(f"{what} says {len(lines)} lines: {lines}")
        self.trouble.extend(f"{what} does not say '{word}': {line}" for line in lines
                            for word in words if word not in line)

    def look_at_bytes(self, whole_messages):
        got = self.got()
        if not self.sent.startswith(got):
            same = len(os.path.commonprefix([self.sent, got]))
            self.trouble.append(f"{len(got)} bytes were received, from byte {same} on not those that "
                                "were sent")
        if whole_messages and got != self.sent and len(got) % self.message_bytes != 0:
            self.trouble.append(f"{len(got)} bytes were received, of messages of {self.message_bytes}")
        if self.parts["get"].process.returncode == 0 and got != self.sent:
            self.trouble.append(f"get ended well with {len(got)} of {len(self.sent)} bytes")

    def look_at_bridge(self):
        """Nothing of an ended transfer is left in it."""
        bridge = self.parts["bridge"]
        end = time.monotonic() + self.patience_s + self.stall_s + HUNG_S
        while bridge.runs() and any(now > before + FOR_ALL_SESSIONS
                                    for now, before in zip(bridge.census(), self.census)):
            if time.monotonic() > end:
                self.trouble.append(f"the bridge had {self.census} descriptors and threads, and has "
                                    f"{bridge.census()}: {bridge.descriptors()}")
                return
            time.sleep(0.05)

    def note_time(self, what, since, less_s, name):
        """How long after `since` that part said its line; `less_s` it was told to wait."""
        errors = self.parts[what].errors()
        if errors and self.parts[what].process.returncode == 1:
            self.times.append((name, errors[-1][0] - since - less_s))


def print_times(title, runs, unit, scale):
    times = collections.defaultdict(list)
    for run in runs:
        for name, seconds in run.times:
            times[name].append(seconds * scale)
    if times:
        print(title)
    for name, values in sorted(times.items()):
        print(f"  {name}: {len(values)}, median {statistics.median(values):.2f} {unit}, "
              f"worst {max(values):.2f} {unit}")


def print_runs(runs, again, by):
    """A line for each trouble, with what to call for that run; the first `by` words of a kind count."""
    troubles = 0
    kinds = collections.Counter()
    for run in runs:
        kinds["/".join(run.kind().split("/")[:by])] += run.struck
        for trouble in run.trouble:
            troubles += 1
            print(f"{again(run)}: {run.kind()}: {trouble}")
    print(f"{len(runs)} runs, {sum(kinds.values())} struck, {troubles} with trouble")
    for kind, count in sorted(kinds.items()):
        print(f"  {kind}: {count}")
    return troubles


KILLED = -signal.SIGKILL
