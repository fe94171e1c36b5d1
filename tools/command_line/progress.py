"""How far a long command is, for the person who waits: as progress.hpp, in Python."""

from __future__ import annotations

import os
import sys
import time

ERASE = "\r\x1b[K"
REDRAW, REPEAT = 0.1, 10.0  # seconds: the drawn line, and the same plain line, at most so often
BAR = 24


def is_drawn() -> bool:
    return (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            and not os.environ.get("NO_COLOR"))  # fmt: skip


def is_utf8() -> bool:
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return "utf8" in next(filter(None, named), "").lower().replace("-", "")


def left_text(part: float, passed: float) -> str:
    if not 0 < part < 1 or passed < 1 or passed / part * (1 - part) >= 360_000:
        return ""
    seconds = int(passed / part * (1 - part) + 0.999)
    if seconds < 60:
        return f"{seconds} s left"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s left"
    return f"{seconds // 3600} h {seconds // 60 % 60} min left"


class Progress:
    """On a terminal one line, drawn anew by step() alone, otherwise a line for each new label.
    clear() takes the line back, before anything else is printed and at the end."""

    def __init__(self, title: str, steps: int) -> None:
        self.title, self.steps, self.begun = title, steps, 0
        self.drawn, self.utf8, self.is_shown = is_drawn(), is_utf8(), False
        self.started, self.last, self.label = time.monotonic(), 0.0, ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def step(self, label: str) -> None:
        """The next of the steps begins; `label` says what it belongs to."""
        part, now = self.begun / max(1, self.steps), time.monotonic()
        has_begun = label != self.label
        self.begun += 1
        self.label = label
        if not has_begun and now - self.last < (REDRAW if self.drawn else REPEAT):
            return
        self.last = now
        left = left_text(part, now - self.started)
        count = f"{self.begun}/{self.steps}"
        if self.drawn:
            print(f"\r{self.line(part, count, left)}\x1b[K", end="", file=sys.stderr, flush=True)
            self.is_shown = True
        else:
            more = f", {left}" if left and not has_begun else ""
            print(f"{self.title}: {label} ({count}){more}", file=sys.stderr, flush=True)

    def line(self, part: float, count: str, left: str) -> str:
        """What finds no room is left out, the title first."""
        room = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        filled = int(part * BAR)
        full, empty = ("\u2588", "\u2591") if self.utf8 else ("#", ".")
        pieces = [self.title, f"[{full * filled}{empty * (BAR - filled)}]", count, self.label]
        tail = [f"({left})"] if left else []
        for those in (pieces + tail, pieces[1:] + tail, pieces[2:] + tail, pieces[2:]):
            text = " ".join(those)
            if len(text) < room:
                return text
        return text[: max(0, room - 2)] + ("\u2026" if self.utf8 else "~")

    def clear(self) -> None:
        if self.is_shown:
            print(ERASE, end="", file=sys.stderr, flush=True)
        self.is_shown = False
