"""What the browser tests share: Chromium or the reason why it is missing, and a JupyterLab of their own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from deck import chromium

ROOT = Path(__file__).resolve().parent.parent

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Said by JupyterLab itself, about itself.
HARMLESS = ("favicon", "ResizeObserver loop")


def need(present: object, what: str, how: str) -> None:
    """Skip the test when something that isn't a Python package is missing; in continuous integration, fail."""
    if not present:
        missing = f"{what} is missing: {how}"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium, or a skipped test that says how to install it."""
    need(chromium.find(), "Chromium", chromium.INSTALL)
    with chromium.launch() as browser:
        yield browser


def moves_by_keyboard(page: Page, explorer: Locator, patience: float = 5) -> None:
    """Press arrow keys in the first slider of an explorer and see its picture change."""
    slider, picture = explorer.locator("input[type=range]").first, explorer.locator("svg").first
    before = picture.evaluate("svg => svg.outerHTML")
    slider.focus()
    value = slider.input_value()
    key = "ArrowLeft" if value == slider.get_attribute("max") else "ArrowRight"
    page.keyboard.press(key)
    assert slider.input_value() != value, "the arrow key didn't move the slider"
    deadline = time.monotonic() + patience
    while picture.evaluate("svg => svg.outerHTML") == before:
        assert time.monotonic() < deadline, "the slider moved and the picture didn't change"
        page.wait_for_timeout(50)


@contextmanager
def lab_server(folder: Path, home: Path) -> Iterator[str]:
    """A JupyterLab on this machine alone, with settings and data of its own in `home`, its notebooks trusted."""
    env = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    settings = home / "config/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"checkForUpdates": False, "fetchNews": "false"}))
    trust = [sys.executable, "-m", "nbformat.sign", *map(str, folder.glob("*.ipynb"))]  # as `make setup` does
    subprocess.run(trust, env=env, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", f"--ServerApp.root_dir={folder}"]
    options += ["--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True"]
    with (home / "log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api/status", server, home / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(address: str, server: subprocess.Popen, log: Path, timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab didn't start:\n{log.read_text()[-3000:]}") from None
            time.sleep(0.2)


class LabNotebook:
    """A notebook open in JupyterLab, driven through the application's own commands."""

    PANEL = "window.jupyterapp.shell.currentWidget"
    READY = """() => { const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
        const session = panel && panel.context && panel.context.isReady && panel.sessionContext;
        return session && session.isReady && session.session && session.session.kernel
            && session.session.kernel.status === 'idle'; }"""
    # Done: the kernel rests, no cell waits, and every code cell has run, or one has failed.
    DONE = """() => { const panel = window.jupyterapp.shell.currentWidget;
        const code = panel.content.widgets.map(cell => cell.model)
            .filter(cell => cell.type === 'code' && cell.sharedModel.source.trim());
        const failed = code.some(cell => cell.outputs.toJSON().some(output => output.output_type === 'error'));
        return panel.sessionContext.session.kernel.status === 'idle'
            && !code.some(cell => cell.executionState === 'running')
            && (failed || code.every(cell => cell.executionCount !== null)); }"""

    def __init__(self, page: Page, log: chromium.Log, address: str, name: str):
        self.page, self.log = page, log
        page.goto(f"{address}/lab/workspaces/{name.split('.')[0]}/tree/{name}", wait_until="domcontentloaded")
        page.wait_for_selector(".jp-NotebookPanel .jp-Notebook .jp-Cell")
        page.wait_for_function(self.READY)
        self.saved_explorers = self.explorers()

    def run_all(self, timeout: float = 900) -> None:
        """Clear all outputs and run all cells, as the Run menu does; returns when they are done or one has failed."""
        for command in ("notebook:clear-all-cell-outputs", "notebook:run-all-cells"):
            self.page.evaluate("name => { window.jupyterapp.commands.execute(name); return true; }", command)
        self.page.wait_for_function(self.DONE, timeout=timeout * 1000, polling=250)

    def cells(self) -> list[dict]:
        """The cells as they stand in the browser. (The page shows only those near the one looked at.)"""
        return self.page.evaluate(f"() => {self.PANEL}.context.model.toJSON().cells")

    def show(self, index: int) -> None:
        """Scroll to a cell, so that its outputs are drawn."""
        self.page.evaluate(f"i => {self.PANEL}.content.scrollToItem(i, 'smart').then(() => true, () => false)", index)
        self.page.wait_for_timeout(30)

    def explorers(self) -> list[int]:
        """The cells that show an explorer which computes in the browser."""
        found = []
        for index, cell in enumerate(self.cells()):
            for output in cell.get("outputs", []):
                kinds, needs_kernel = output.get("data", {}), output.get("metadata", {}).get("needs_kernel")
                if {"application/vnd.jupyter.widget-view+json", "image/png"} <= set(kinds) and not needs_kernel:
                    found.append(index)
        return found

    def explorer(self, index: int) -> Locator:
        """The live view of the explorer in a cell; waits until it is drawn."""
        self.show(index)
        view = self.page.locator(
            f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"] .jp-OutputArea-output:has(svg)'
        )
        view = view.filter(has=self.page.locator("input[type=range]")).first
        view.locator("svg").first.wait_for()
        return view

    def problems(self) -> list[str]:
        """Broken widgets, errors in the console, and requests that would have left the machine."""
        failed = ":text-matches('Error displaying widget|Failed to load model')"
        broken = self.page.locator(f".jupyter-widgets-error-widget, .jp-OutputArea {failed}")
        errors = [text for text in self.log.errors if not any(word in text for word in HARMLESS)]
        widgets = [f"{broken.count()} broken widgets"] if broken.count() else []
        return widgets + errors + [f"outside request: {url}" for url in self.log.requests]


@contextmanager
def lab_notebook(browser: Browser, address: str, name: str) -> Iterator[LabNotebook]:
    """A notebook opened in a page of its own that can reach the server and nothing else."""
    with chromium.page(browser, chromium.from_server(address), (1400, 900)) as (page, log):
        yield LabNotebook(page, log, address, name)


def copy_notebooks(folder: Path) -> Path:
    """A copy of the notebooks and their figures, so that a test never writes into the originals."""
    return Path(shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints")))
