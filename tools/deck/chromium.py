"""A headless Chromium whose pages can reach nothing but what they are allowed to."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
INSTALL = "sudo apt-get install chromium   (elsewhere: install Chrome or Chromium, or set CHROMIUM=/path/to/it)"
OPTIONS = [
    "--no-sandbox",  # the sandbox doesn't start as root or in most containers; only our own pages are opened
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Besides the guard below: no name but this machine's can be resolved.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
INSIDE = ("data:", "blob:", "about:")

PATIENCE = 300  # seconds that a page may take, so that a busy machine is no failure


@dataclass
class Log:
    """What went wrong in a page: requests that were refused, and errors in the console or uncaught."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def find() -> str | None:
    """The path of a Chromium, or None. The environment variable CHROMIUM goes first."""
    candidates = [os.environ.get("CHROMIUM"), *NAMES, MAC]
    found = (shutil.which(name) for name in candidates if name)
    return next((path for path in found if path), None)


@contextmanager
def launch() -> Iterator[Browser]:
    """A headless Chromium. Raises FileNotFoundError with the line that installs it."""
    path = find()
    if path is None:
        raise FileNotFoundError(f"Chromium not found: {INSTALL}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page(browser: Browser, allowed: Callable[[str], bool], size: tuple[int, int]) -> Iterator[tuple[Page, Log]]:
    """A page in a context of its own, and the log of what went wrong in it and in the windows it opens."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    context.set_default_timeout(1000 * PATIENCE)
    log = Log()
    _guard(context, allowed, log)
    try:
        yield context.new_page(), log
    finally:
        context.close()


def from_disk(path: Path) -> Callable[[str], bool]:
    """The rule for a page that must carry everything inside: nothing else may be read, from disk neither."""
    own = path.resolve().as_uri()
    return lambda url: url.split("#")[0].split("?")[0] == own


def from_server(address: str) -> Callable[[str], bool]:
    """The rule for a page on a server of this machine: http://127.0.0.1:PORT."""
    host = address.split("//")[1]
    return lambda url: url.split("//", 1)[-1].split("/")[0] == host


def _guard(context: BrowserContext, allowed: Callable[[str], bool], log: Log) -> None:
    def inside(url: str) -> bool:
        return url.startswith(INSIDE) or allowed(url)

    def decide(route: Route) -> None:
        if inside(route.request.url):
            route.continue_()
        else:
            log.requests.append(route.request.url[:200])
            route.abort()

    def watch(page: Page) -> None:
        page.on("console", lambda message: log.errors.append(message.text[:300]) if message.type == "error" else None)
        page.on("pageerror", lambda error: log.errors.append(str(error)[:300]))
        page.on("websocket", lambda socket: None if inside(socket.url) else log.requests.append(socket.url[:200]))

    context.route("**/*", decide)
    context.on("page", watch)
