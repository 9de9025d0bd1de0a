"""`python -m benchmarks`: every benchmark in one run, with the machine's load beside the numbers."""

from __future__ import annotations

import os
import platform

import torch

from benchmarks import deep, estimators, one_layer, outliers, scan


def main() -> None:
    """Print one table."""
    load = os.getloadavg()
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {os.cpu_count()} cores, "
        f"{platform.processor() or platform.machine()}, "
        f"load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} before the run"
    )
    if load[0] > 0.5:
        print("the machine is not quiet: trust the ratios, which are of paired repeats, more than the times")
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        print(f"\n{threads} thread{'s' if threads > 1 else ''}")
        print(f"{'case':<72} {'ours':>11} {'peer':>12} {'peer/ours':>10}  peer")
        for module in (one_layer, outliers, estimators, scan):
            for row in module.run():
                print_row(row)
    deep.run()
    print(f"load average after the run {os.getloadavg()[0]:.2f}")


def print_row(row: dict[str, object]) -> None:
    """One line of the table, and the note below it."""
    ours, peer, ratio = (float(str(row[key])) for key in ("ours_ms", "peer_ms", "ratio"))
    print(f"{row['case']!s:<72} {ours:>8.2f} ms {peer:>9.1f} ms {ratio:>10.2f}  {row['peer']}")
    if "note" in row:
        print(f"    {row['note']}")


if __name__ == "__main__":
    main()
