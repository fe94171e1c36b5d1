"""Chromium without a display, for tests of what people look at in a browser."""

from __future__ import annotations

import shutil
import sys
from typing import Any, NoReturn


def skip(why: str) -> NoReturn:
    print(f"skipped: {why}; tools/setup test installs it")
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    skip("python3-selenium is not installed")
for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
    if not shutil.which(program):
        skip(f"{package} is not installed")


def open_browser(folder: str) -> Any:  # selenium has few types
    options: Any = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={folder}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("chromedriver"))
