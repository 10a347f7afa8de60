"""``python -m hosting.deploy owner/name [--flavour zerogpu] [--dry-run]``: deploys the page to a
Space, or lists the files.

A Space is created or updated in one commit through huggingface_hub: text is in the commit and
binary files use Xet, as the Hub requires (it rejects a plain git push of weights).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from hosting.deploy.files import FLAVOURS, DeployError, Flavour, Upload, tree, uploads
from hosting.settings import REPOSITORY

ROOT = Path(__file__).parents[2]
HUB_FILES = frozenset({".gitattributes"})  # maintained by the Hub
_UNREACHABLE = (
    "The Hugging Face Hub cannot be reached: connect (and unset HF_HUB_OFFLINE), then try again."
)
_EXPLAINED: Sequence[tuple[type[Exception] | tuple[type[Exception], ...], str]] = (
    (
        LocalTokenNotFoundError,
        "There is no token of the Hugging Face Hub: run `hf auth login`, or set HF_TOKEN.",
    ),
    ((OfflineModeIsEnabled, ConnectionError, TimeoutError), _UNREACHABLE),
    (
        RepositoryNotFoundError,
        "The Space {space} cannot be reached with this token: check the owner, and that the token "
        "may write there.",
    ),
    (HFValidationError, "{space!r} is not the name of a Space: write owner/name."),
)
_CHANGED = "The Space {space} has been changed meanwhile: look at it, then deploy again."
_ANSWERS = {
    401: "The Hugging Face Hub does not know this token: run `hf auth login` again, or set another HF_TOKEN.",
    402: "The account of {space} may not have this hardware without a paid plan: choose FLAVOUR=zerogpu, or pay.",
    403: "This token may not write to {space}: make one with write access for its owner, and log in with it.",
    409: _CHANGED,
    412: _CHANGED,
    413: "The Hub finds the files too large for {space}; nothing was changed.",
    429: "The Hugging Face Hub asks to slow down: try again in some minutes.",
}


def main(
    arguments: Sequence[str] | None = None, api: HfApi | None = None, root: Path = ROOT
) -> int:
    """Returns 0 after an upload or a listing, 2 if nothing was uploaded; the reason is on standard
    error."""
    options = _parser().parse_args(arguments)
    flavour, space = FLAVOURS[options.flavour], options.space
    try:
        if not REPOSITORY.fullmatch(space):
            name = f"SPACE is {space[:80]!r}; it must be the owner and the name of a Space, such as me/mars-playground."
            raise DeployError(name)
        commit, paths = tree(root, dirty=options.dirty)
        files = uploads(root, flavour, paths)
        if options.dry_run:
            sys.stdout.write(listing(space, flavour, commit, files))
            return 0
        message = f"MARS Playground {commit}"
        done, removed = deploy(
            api or HfApi(), space, flavour, files, message, private=options.private
        )
    except DeployError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    address = f"https://huggingface.co/spaces/{space}"
    sys.stdout.write(
        f"{len(files)} files are on {address} (commit {done[:12]}); the Space builds now.\n"
    )
    sys.stdout.writelines(f"removed there: {path}\n" for path in removed)
    return 0


def listing(space: str, flavour: Flavour, commit: str, files: Sequence[Upload]) -> str:
    """Every file with its size and upload method."""
    rows = [
        f"{len(file.content):>12,}  {'Xet ' if file.binary else 'text'}  {file.path}"
        for file in files
    ]
    large = [file for file in files if file.binary]
    return "\n".join(
        [
            f"Nothing is uploaded. {commit} would go to https://huggingface.co/spaces/{space} as "
            f"{flavour.name}:",
            f"sdk {flavour.sdk}, hardware {flavour.hardware} (when the Space is made), "
            f"MARS_PAIRS={flavour.pairs or '(unset: SmolLM2 135M and the bundled pair)'}",
            *rows,
            f"{len(files)} files, {sum(len(file.content) for file in files):,} bytes; of these "
            f"{len(large)} binary, {sum(len(file.content) for file in large):,} bytes. Other "
            "files of the Space would be removed.",
            "",
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m hosting.deploy", description=__doc__)
    parser.add_argument("space", help="owner/name")
    parser.add_argument("--flavour", choices=list(FLAVOURS), default="zerogpu")
    parser.add_argument(
        "--dry-run", action="store_true", help="list the files without contacting the Hub"
    )
    parser.add_argument(
        "--dirty", action="store_true", help="allow files that differ from the last commit"
    )
    parser.add_argument("--private", action="store_true", help="make a new Space private")
    return parser


def deploy(
    api: HfApi,
    space: str,
    flavour: Flavour,
    files: Sequence[Upload],
    message: str,
    *,
    private: bool = False,
) -> tuple[str, list[str]]:
    """Updates the Space to exactly ``files``. Existing secrets and variables are not changed.
    Returns the id of the commit and the removed paths. Raises DeployError."""
    with explained(space):
        api.whoami()
        hardware: Any = flavour.hardware  # one of the Hub's values
        api.create_repo(
            space,
            repo_type="space",
            space_sdk=flavour.sdk,
            space_hardware=hardware,
            private=private or None,
            exist_ok=True,
        )
        head = api.space_info(space).sha
        present = api.list_repo_files(space, repo_type="space", revision=head)
        removed = sorted(set(present) - {file.path for file in files} - HUB_FILES)
        # before the commit, which starts the Space
        if flavour.pairs and "MARS_PAIRS" not in api.get_space_variables(space):
            api.add_space_variable(
                space, "MARS_PAIRS", flavour.pairs, description="Pairs of models that are offered"
            )
        operations = [CommitOperationAdd(file.path, file.content) for file in files]
        deletions = [CommitOperationDelete(path, is_folder=False) for path in removed]
        commit = api.create_commit(
            space,
            [*operations, *deletions],
            commit_message=message,
            repo_type="space",
            parent_commit=head,  # fails if the Space has been changed meanwhile
        )
    return commit.oid, removed


@contextmanager
def explained(space: str) -> Iterator[None]:
    """Converts errors of the Hub's client to DeployError with advice; messages do not contain the
    token."""
    try:
        yield
    except Exception as error:
        sentence = next((sentence for kind, sentence in _EXPLAINED if isinstance(error, kind)), "")
        if isinstance(error, HfHubHTTPError) and not sentence:
            status = getattr(error.response, "status_code", None)
            other = f"The Hugging Face Hub answered {status or 'an error'} for {{space}}: try again later."
            sentence = _ANSWERS.get(status or 0, other)
        elif type(error).__module__.partition(".")[0] in (
            "httpx",
            "httpx2",
            "httpcore",
            "httpcore2",
        ):
            sentence = _UNREACHABLE
        if not sentence:
            raise
        raise DeployError(sentence.format(space=space)) from error


if __name__ == "__main__":
    raise SystemExit(main())
