"""Trains an EAGLE-3 head for any target on texts that the target writes itself: ``python -m
training.head --target TARGET --out FOLDER``.

The same command goes on where it was stopped. On a CPU one process a core is fastest: ``torchrun
--nproc-per-node 2 -m training.head …``; ``accelerate launch -m training.head …`` on GPUs.
2503.01840 for the head; no data set is read.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

import torch
import torch.distributed as dist

from training.head.processes import TrainingProcess
from training.head.rounds import Training


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.head", description=__doc__)
    parser.add_argument(
        "--target", required=True, help="folder or Hub name of the model that the head serves"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the head, its state and its curve"
    )
    parser.add_argument(
        "--head", type=Path, help="folder of a head of this recipe, to begin with its weights"
    )
    parser.add_argument(
        "--tokens", type=int, default=8_000_000, help="fresh tokens in all (default 8000000)"
    )
    parser.add_argument(
        "--shard",
        type=int,
        default=500_000,
        help="tokens of a round, of all processes (default 500000)",
    )
    parser.add_argument(
        "--vocabulary", type=int, default=8_192, help="ids that the head can draft (default 8192)"
    )
    parser.add_argument(
        "--rate", type=float, default=4e-3, help="learning rate of matrices (default 0.004)"
    )
    parser.add_argument(
        "--decay",
        type=float,
        default=0.3,
        help="last share of the training, in which the rate falls to 0 (default 0.3)",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", number) if torch.cuda.is_available() else torch.device("cpu")
    together = "RANK" in os.environ  # accelerate launch, torchrun
    if together:
        dist.init_process_group()
    rank, count = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
    level = logging.WARNING if rank else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(message)s")
    Training(options, TrainingProcess(rank, count, device)).run()
    if together:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
