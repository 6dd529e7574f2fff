"""Settings for the whole test run: how notebooks are compared (nbval), and in which order and with how many threads."""

from __future__ import annotations

import os

import pytest

try:
    from nbval.kernel import RunningKernel
    from nbval.plugin import IPyNbCell, IPyNbFile
except ImportError:  # the package's own tests run without it
    IPyNbCell = IPyNbFile = RunningKernel = None

# With several workers on few cores, one thread each is faster than all threads in each. Kernels inherit it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Not compared: warnings (a saved notebook has none: tools/notebook check) and drawings, beside the pictures and widget
# ids that nbval leaves out itself. Text and HTML are compared.
NOT_COMPARED = ("stderr", "image/svg+xml", "application/javascript")
OUTPUTS = ("display_data", "execute_result", "stream", "error")  # messages that add an output


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # the order below is the better one
    if RunningKernel is not None:
        RunningKernel.execute_cell_input = execute_cell_input
        IPyNbFile.get_kernel_message = get_kernel_message


def pytest_collectstart(collector: pytest.Collector) -> None:
    if IPyNbFile is not None and isinstance(collector, IPyNbFile):
        collector.skip_compare += NOT_COMPARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first: a worker that starts it last would let the other wait."""

    def turn(item: pytest.Item) -> int:
        if item.path.name == "test_robust.py":  # for one worker, each notebook two or three times
            return 0
        return 1 if IPyNbCell is not None and isinstance(item, IPyNbCell) else 2

    items.sort(key=turn)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    if IPyNbCell is not None and isinstance(item, IPyNbCell):
        item.parent.displays = Displays(item)


def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
    """Execute as JupyterLab does. nbval stores no history, and then IPython overlooks a semicolon at the end."""
    self.cell_id = self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)
    return self.cell_id


def get_kernel_message(self, timeout: float | None = None, stream: str = "iopub") -> dict:
    """Hand a message to nbval, after doing to the outputs what nbval leaves undone."""
    message = self.kernel.get_message(stream, timeout=timeout)
    if message["parent_header"].get("msg_id") == self.kernel.cell_id:
        self.displays.apply(message)
    return message


class Displays:
    """The outputs of a running cell, changed by later messages as JupyterLab changes them before it saves.

    nbval knows neither `update_display_data` nor `clear_output`: it would compare the first state of a progress bar,
    while the notebook holds the last.
    """

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.places: dict[str, list[int]] = {}  # display id -> positions in the cell's outputs
        self.clear_next = False

    def apply(self, message: dict) -> None:
        kind, content, outputs = message["msg_type"], message["content"], self.item.test_outputs
        if kind == "clear_output" and content["wait"]:
            self.clear_next = True
        elif kind == "clear_output" or (self.clear_next and kind in OUTPUTS):
            outputs.clear()
            self.places.clear()
            self.clear_next = False
        display = (content.get("transient") or {}).get("display_id")
        if display and kind in ("display_data", "execute_result", "update_display_data"):
            for place in self.places.get(display, []):
                outputs[place]["data"] = content["data"]
            if kind != "update_display_data":
                self.places.setdefault(display, []).append(len(outputs))
