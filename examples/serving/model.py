"""Reads pages of handwritten digits.

`python3 model.py WEIGHTS [PAGE]` trains it, on opencv-doc's digits, and writes a page of them.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

DATA = "/usr/share/doc/opencv-doc/examples/data/digits.png"  # 50 rows of 100; each digit has 5 rows
SIDE, DIGIT = 32, 20  # a page: 32 x 32 digits of 20 x 20 pixels
PAGE = SIDE * SIDE


def cut(image: Any) -> Any:
    """The digits of an image, row by row, as a view."""
    rows, columns = image.shape[0] // DIGIT, image.shape[1] // DIGIT
    return image.reshape(rows, DIGIT, columns, DIGIT).swapaxes(1, 2)


def digits() -> tuple[Any, Any]:
    """All 5000 digits, and what they are."""
    with Image.open(DATA) as image:
        pixels = cut(np.asarray(image.convert("L"))).reshape(-1, DIGIT, DIGIT)
    return pixels, np.repeat(np.arange(10), len(pixels) // 10)


def draw(random: np.random.Generator) -> bytes:
    """A page of digits, as PNG."""
    pixels, _ = digits()
    some = pixels[random.integers(0, len(pixels), PAGE)]
    image = some.reshape(SIDE, SIDE, DIGIT, DIGIT).swapaxes(1, 2)
    png = io.BytesIO()
    Image.fromarray(image.reshape(SIDE * DIGIT, SIDE * DIGIT)).save(png, "PNG")
    return png.getvalue()


def decode(png: Any, page: Any) -> None:
    """Decodes an image into `page`, of PAGE x DIGIT x DIGIT floats."""
    wanted = f"a page is a PNG (or JPEG) of {SIDE * DIGIT} x {SIDE * DIGIT} pixels"
    try:
        opened = Image.open(io.BytesIO(png))
    except UnidentifiedImageError:
        raise ValueError(f"these {len(png)} bytes are no image; {wanted}") from None
    with opened as image:
        if image.size != (SIDE * DIGIT, SIDE * DIGIT):  # before anything is decoded
            raise ValueError(f"it has {image.width} x {image.height} pixels; {wanted}")
        pixels = cut(np.asarray(image.convert("L")))
    np.divide(pixels, 255, out=page.reshape(pixels.shape), casting="unsafe")


def network() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, stride=2, padding=2), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(400, 10),
    )  # fmt: skip


def load(weights: str) -> Any:
    torch.set_num_threads(1)
    net = network()
    net.load_state_dict(torch.load(weights))
    return net.eval()


def scores(net: Any, pages: Any) -> Any:
    """Ten for each digit of each page."""
    with torch.inference_mode():
        return net(torch.from_numpy(pages).reshape(-1, 1, DIGIT, DIGIT))


def train(weights: str, rounds: int = 4) -> None:
    torch.manual_seed(1)
    pixels, labels = digits()
    images = torch.from_numpy(pixels.astype("f4") / 255).unsqueeze(1)
    right = torch.from_numpy(labels)
    held_back = torch.arange(len(images)) % 5 == 0
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), 0.005)
    for _ in range(rounds):
        for some in torch.randperm(len(images)).split(64):
            some = some[~held_back[some]]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[some]), right[some]).backward()
            optimizer.step()
    good = (net(images[held_back]).argmax(1) == right[held_back]).float().mean()
    torch.save(net.state_dict(), weights)
    print(f"model: {weights}: {100 * good:.1f} % of the digits that it had not seen are right")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit("usage: model.py WEIGHTS [PAGE]")
    try:
        train(sys.argv[1])
        if len(sys.argv) == 3:
            Path(sys.argv[2]).write_bytes(draw(np.random.default_rng(2)))
    except (OSError, RuntimeError) as error:  # torch's of a file that cannot be written
        sys.exit(f"model: {error}")
