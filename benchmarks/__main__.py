"""Time models of the course beside torch's own layers, and beside the straightforward form of themselves.

    python -m benchmarks                  every case
    python -m benchmarks --only greedy    one of them (may be repeated)

The two sides of a case run in turns, so that whatever else the machine does meets both.  A row has the median of each,
and of the ratios of neighboring runs the median, the smallest and the largest.  Memory is the peak of a process that
runs one side alone, above what it had after the imports.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.contenders import CASES, Case, Sizes

try:
    import resource
except ImportError:  # Windows
    resource = None

TINY = Sizes(batch=3, length=6, lm_length=7, vocab=20, d_model=8, n_heads=2, d_ff=12, sentences=2, written=5)
COLUMNS = ("case", "beside", "ours ms", "theirs ms", "ratio", "min–max", "target", "met", "ours MB", "theirs MB")
ROW = "{:20}{:21}" + "  {:>9}" * 8


def milliseconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


def in_turns(case: Case, sizes: Sizes, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each run of ours and theirs.  Raises ValueError if they don't compute the same."""
    sides = [case.contender(side, sizes) for side in ("ours", "theirs")]
    case.check(*sides)
    times = ([], [])
    for turn in range(-2, rounds):  # the first two warm up
        for i in (0, 1) if turn % 2 else (1, 0):
            times[i].append(milliseconds(sides[i].run))
    return times[0][2:], times[1][2:]


def peak() -> float:
    """The most memory that this process has had so far, in MB; NaN where the system doesn't say."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit if resource else float("nan")


def memory_of(case: Case, side: str, sizes: Sizes) -> float:
    """The peak of three runs in this process, in MB above what it was before."""
    before, contender = peak(), case.contender(side, sizes)
    for _ in range(3):
        contender.run()
    return peak() - before


def memory_in_a_process(case: Case, side: str, options: argparse.Namespace) -> float:
    command = [sys.executable, "-m", "benchmarks", "--only", case.name, "--memory-of", side]
    command += ["--threads", str(options.threads)] + ["--tiny"] * options.tiny
    done = subprocess.run(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, check=True, text=True)
    return float(done.stdout)


def row(case: Case, ours: list[float], theirs: list[float], memory: list[float]) -> str:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    times = f"{median(ours):.1f}", f"{median(theirs):.1f}"
    ratio = f"{median(ratios):.2f}", f"{min(ratios):.2f}–{max(ratios):.2f}"
    goal = f"≤ {case.target:.2f}", "yes" if median(ratios) <= case.target else "no"
    return ROW.format(case.name, case.other, *times, *ratio, *goal, *(f"{peak:.0f}" for peak in memory))


def main(arguments: list[str] | None = None) -> int:
    """Run the command with `arguments`, those of the command line if None; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = [case.name for case in CASES]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each side that count (default: 20)")
    parser.add_argument("--threads", type=int, default=2, help="default: 2")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--memory-of", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads: expected at least 1")
    torch.set_num_threads(options.threads)
    cases = [case for case in CASES if case.name in (options.only or names)]
    sizes = TINY if options.tiny else Sizes()
    if options.memory_of:
        print(memory_of(cases[0], options.memory_of, sizes))
        return 0
    print(f"PyTorch {torch.__version__}; threads: {options.threads}, rounds: {options.rounds}; {sizes}")
    print(f"Both sides train with Adam(fused=True).\n\n{ROW.format(*COLUMNS)}", flush=True)
    # Memory first: a process begins with the peak of the one that started it.
    memory = [[memory_in_a_process(case, side, options) for side in ("ours", "theirs")] for case in cases]
    for case, peaks in zip(cases, memory, strict=True):
        print(row(case, *in_turns(case, sizes, options.rounds), peaks), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
