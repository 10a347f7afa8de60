"""``python -m bench.cuda``: all parts in turn; the result is written after each.

Exit status 2 without a CUDA device. ``--tiny`` runs it with tiny models on the CPU.
"""

from __future__ import annotations

import gc
import sys
import time

import torch
from transformers.utils import logging as transformers_logging

from bench.common.command import CPU, Options, Reports, measurement
from bench.common.report import (
    BenchReport,
    MeasuredFigure,
    ResultTable,
    figure_table,
    figure_values,
)
from bench.cuda.parts import PARTS
from bench.cuda.trial import FULL, TINY, CudaTrial


@measurement("bench.cuda", __doc__, only=[*PARTS], tiny=False)
def main(options: Options) -> Reports:
    tiny = options.tiny
    if not tiny and not torch.cuda.is_available():
        sys.stderr.write(
            "No CUDA device was found; --tiny (make cuda TINY=1) tries this measurement on the CPU.\n"
        )
        raise SystemExit(2)
    transformers_logging.set_verbosity_error()
    device = CPU if tiny else torch.device("cuda", torch.cuda.current_device())
    where = "a CPU: tiny shapes, no number means anything" if tiny else "a GPU"
    goals, tables, data = list[MeasuredFigure](), list[ResultTable](), dict[str, object]()
    for name in options.only:
        gc.collect()  # models and captured steps of the part before
        torch.cuda.empty_cache()
        part, started = PARTS[name], time.perf_counter()
        figures = [*part.measure(CudaTrial(device, TINY if tiny else FULL))]
        took = f"It took {time.perf_counter() - started:.0f} s."
        tables.append(figure_table(figures, part.title, [took]))
        data[name] = figure_values(figures)
        goals += [one._replace(name=f"{part.title}: {one.name}") for one in figures if one.goal]
        notes = [
            "bfloat16; captured steps and exact passes, where not stated otherwise; a lower bound "
            "is the weights' bytes over the bandwidth",
            f"{sum(bool(one.reached) for one in goals)} of {len(goals)} goals reached",
        ]
        title, file = f"Random models on {where}", f"cuda{'-tiny' * tiny}"
        yield BenchReport(title, notes, [*goals], [*tables], data, device=device, name=file)


if __name__ == "__main__":
    raise SystemExit(main())
