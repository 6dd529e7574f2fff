"""What the tests of robustness share: a copy of the course that can't be written to, and a kernel that is ill placed.

The stop button is the real one, a signal that Jupyter sends to the kernel from outside. So that a test doesn't depend
on how fast a machine is, the kernel says when it wants to be stopped, and waits for it: in the second step of every
optimizer, so that each training has begun and none is done.
"""

import os
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
COURSE = ("course_utils", "data", "notebooks", "pyproject.toml")  # what a lecture may read
PATIENCE = 1800  # seconds that one cell may take, however slow and busy the machine is

# Root may write anywhere, whatever the permissions say: the kernel gives this up, with all other privileges.
AS_ANYBODY = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def unsupported() -> str:
    """Why nothing can be made read-only for a kernel here; "" if it can."""
    if sys.platform == "win32":
        return "permissions are another thing on Windows"
    if AS_ROOT and not (shutil.which("setpriv") and subprocess.run([*AS_ANYBODY, "true"]).returncode == 0):
        return "root can't give up its privileges here: run the tests as another user"
    return ""


# Run in the kernel before anything else: which of the promised circumstances doesn't hold.
PROBE = """
def _probe(course, threads):
    import codecs, importlib.util, locale, os, sys
    from pathlib import Path

    def can_be_written(path):
        try:
            with (path / "written").open("w") if path.is_dir() else path.open("a"):
                return True
        except OSError:
            return False

    course, home, here = Path(course), Path.home(), Path.cwd()
    package = Path(importlib.util.find_spec("course_utils").origin)
    encoding = codecs.lookup(locale.getpreferredencoding(False)).name
    for path in filter(can_be_written, (course, *course.rglob("*"), home, here)):
        yield f"{path} can be written to"
    if not package.is_relative_to(course):
        yield f"the course comes from {package}"
    if here.is_relative_to(course) or any(here.iterdir()):
        yield f"{here} is part of the course, or not empty"
    if encoding != "ascii":
        yield f"the encoding of the locale is {encoding}"
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        yield f"OMP_NUM_THREADS is {os.environ.get('OMP_NUM_THREADS')}"
    if "torch" in sys.modules:
        yield "PyTorch has been imported, and no longer looks at OMP_NUM_THREADS"

for _problem in _probe(**ARGUMENTS):
    print(_problem)
"""

# From now on the kernel asks for the stop button in the second step of every optimizer, and waits until it is pressed.
ASK = "application/x-press-stop"
ASKING = f"""
class _Asking:
    def __init__(self):
        import weakref
        from torch.optim.optimizer import register_optimizer_step_post_hook
        self.steps, self.late = weakref.WeakKeyDictionary(), 0  # late: steps made by those that were stopped
        self.handle = register_optimizer_step_post_hook(self.stepped)

    def stepped(self, optimizer, *_):
        import signal, time
        self.steps[optimizer] = self.steps.get(optimizer, 0) + 1
        self.late += self.steps[optimizer] > 2
        if self.steps[optimizer] != 2:
            return
        handler, pressed = signal.getsignal(signal.SIGINT), []
        signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
        kernel = get_ipython().kernel
        kernel.send_response(kernel.iopub_socket, "display_data", dict(data={{{ASK!r}: ""}}, metadata={{}}))
        while not pressed:
            time.sleep(0.01)
        signal.signal(signal.SIGINT, handler)
        handler(*pressed[0])

_asking = _Asking()
"""
NO_LONGER = "_asking.handle.remove(); print(_asking.late)"


@contextmanager
def read_only_course(folder: Path) -> Iterator[Path]:
    """A copy of what a lecture reads, without a file or folder that can be written to; gone afterwards."""
    course = folder / "course"
    course.mkdir()
    for name in COURSE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / name, course)
    for path in (*course.rglob("*"), course):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield course
    finally:
        for path in (course, *course.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(course)


@dataclass
class Outcome:
    """What a cell did: the name and message of its error, what it verified and printed, how often it was stopped."""

    error: str = ""
    message: str = ""
    verified: list[str] = field(default_factory=list)
    printed: str = ""
    stops: int = 0


class AnybodysKernel(KernelManager):
    """The kernel of the Python that runs the tests, without root's privileges."""

    @property
    def kernel_spec(self) -> KernelSpec:
        spec = get_kernel_dict(extra_arguments=["--log-level=ERROR"])
        return KernelSpec(resource_dir=RESOURCES, **spec | {"argv": AS_ANYBODY * AS_ROOT + spec["argv"]})


class HostileKernel:
    """A kernel without a folder to write to, but for temporary files, and without a language.

    course: a copy that can't be written to; folder: gets the working directory, the home (both empty and locked) and
    `temporary`; kernels with the same folder share all three. threads: OMP_NUM_THREADS.
    """

    def __init__(self, course: Path, folder: Path, threads: int):
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        for name in ("elsewhere", "home"):
            (folder / name).mkdir(exist_ok=True, mode=0o555)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(course),
            "HOME": str(folder / "home"),
            "TMPDIR": str(self.temporary),
            "LANG": "C",
            "LC_ALL": "C",
            "PYTHONUTF8": "0",  # Python would read and write UTF-8 all the same in this locale, though not in others
            "OMP_NUM_THREADS": str(threads),
        }
        self.manager = AnybodysKernel(shutdown_wait_time=PATIENCE)  # it ends by itself, and cleans up
        self.manager.start_kernel(cwd=str(folder / "elsewhere"), env=environment)
        try:
            self.client = self.manager.blocking_client()
            self.client.start_channels()
            self.client.wait_for_ready(timeout=PATIENCE)
            self.run(f"ARGUMENTS = {dict(course=str(course), threads=threads)}")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "HostileKernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def problems(self) -> list[str]:
        """Which of the circumstances doesn't hold; to be asked before anything is run."""
        outcome = self.run(PROBE)
        return outcome.printed.splitlines() + [f"{outcome.error}: {outcome.message}"] * bool(outcome.error)

    def close(self) -> None:
        """End the kernel, which removes its own temporary files."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=not self.manager.is_alive())
        self.manager.cleanup_resources()

    def run(self, source: str) -> Outcome:
        """Run a cell, and press the stop button whenever the kernel asks for it."""
        request, outcome = self.client.execute(source, stop_on_error=False), Outcome()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=5)
            except queue.Empty:
                assert self.manager.is_alive(), f"the kernel died in\n{source}"
                assert time.monotonic() < deadline, f"no end in {PATIENCE} s of\n{source}"
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            data = content.get("data", {})
            if kind == "status" and content["execution_state"] == "idle":
                return outcome
            if kind == "error":
                outcome.error, outcome.message = content["ename"], content["evalue"]
            elif kind == "stream" and content["name"] == "stdout":
                outcome.printed += content["text"]
            elif ASK in data:
                outcome.stops += 1
                self.manager.interrupt_kernel()
            elif is_verified(data):
                outcome.verified.append(data["text/plain"])

    def run_all(self, nb: NotebookNode) -> dict[int, Outcome]:
        """Run all code cells, those after an error too; the outcome of each by its place in the notebook."""
        return {i: self.run(cell.source) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"}

    def run_all_with_interruptions(self, nb: NotebookNode) -> tuple[dict[int, Outcome], int]:
        """The same, with the stop button pressed once in each training.

        Also returns how many steps trainings made after they were stopped.
        """
        self.run(ASKING)
        outcomes = self.run_all(nb)
        return outcomes, int(self.run(NO_LONGER).printed)


def is_verified(data: dict) -> bool:
    """Whether displayed data is the line of a true `verify`."""
    return 'aria-label="verified:"' in data.get("text/html", "")
