"""``python -m hosting.deploy owner/name [--flavour zerogpu] [--dry-run]``: puts the page on a Space, or lists what would go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi

from hosting.deploy.files import DeployError, Upload, tree, uploads
from hosting.deploy.flavours import FLAVOURS, Flavour
from hosting.deploy.space import checked_name, deploy

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None, api: HfApi | None = None, root: Path = ROOT) -> int:
    """0: the Space has it, or the list is written; 2: nothing was uploaded, and why."""
    said = _parser().parse_args(arguments)
    flavour = FLAVOURS[said.flavour]
    try:
        space = checked_name(said.space)
        commit, paths = tree(root, dirty=said.dirty)
        files = uploads(root, flavour, paths)
        if said.dry_run:
            sys.stdout.write(listing(space, flavour, commit, files))
            return 0
        done = deploy(api or HfApi(), space, flavour, files, f"MARS Playground {commit}", private=said.private)
    except DeployError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{len(files)} files are on {done.address} (commit {done.commit[:12]}); the Space builds now.\n")
    for path in done.removed:
        sys.stdout.write(f"removed there: {path}\n")
    return 0


def listing(space: str, flavour: Flavour, commit: str, files: Sequence[Upload]) -> str:
    """Every file with its size and the way it would take."""
    rows = [f"{len(file.content):>12,}  {'Xet ' if file.binary else 'text'}  {file.path}" for file in files]
    large = [file for file in files if file.binary]
    return "\n".join(
        [
            f"Nothing is uploaded. {commit} would go to https://huggingface.co/spaces/{space} as {flavour.name}:",
            f"sdk {flavour.sdk}, hardware {flavour.hardware} (when the Space is made), "
            f"MARS_PAIRS={flavour.pairs or '(unset: the bundled pair)'}",
            *rows,
            f"{len(files)} files, {sum(len(file.content) for file in files):,} bytes; of these {len(large)} binary, "
            f"{sum(len(file.content) for file in large):,} bytes. What the Space has beside these would be removed.",
            "",
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m hosting.deploy", description=__doc__)
    parser.add_argument("space", help="owner/name")
    parser.add_argument("--flavour", choices=list(FLAVOURS), default="zerogpu")
    parser.add_argument("--dry-run", action="store_true", help="list what would go where; nobody is asked")
    parser.add_argument("--dirty", action="store_true", help="although files differ from the last commit")
    parser.add_argument("--private", action="store_true", help="a new Space is seen by its owner only")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
