"""Reads pages of handwritten digits. `python3 model.py WEIGHTS` trains it, on opencv-doc's digits."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import torch
from PIL import Image

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


def decode(png: Any, page: Any) -> None:
    """Decodes an image into `page`, of PAGE x DIGIT x DIGIT floats."""
    with Image.open(io.BytesIO(png)) as image:
        if image.size != (SIDE * DIGIT, SIDE * DIGIT):  # before anything is decoded
            raise ValueError(f"an image of {image.size}; a page has {(SIDE * DIGIT, SIDE * DIGIT)}")
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
    if len(sys.argv) != 2:
        sys.exit("usage: model.py WEIGHTS")
    try:
        train(sys.argv[1])
    except (OSError, RuntimeError) as error:  # torch's of a file that cannot be written
        sys.exit(f"model: {error}")
