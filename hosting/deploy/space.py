"""Makes a Space, or brings one up to date, in one commit. Talks to the Hub through huggingface_hub alone.

Text goes in the commit and binary files through Xet, as the Hub asks for each: a plain git push of weights is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from hosting.deploy.files import DeployError, Upload
from hosting.deploy.flavours import Flavour

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
KEPT = frozenset({".gitattributes"})  # the Hub's own


@dataclass(frozen=True, slots=True)
class Deployed:
    """``removed``: paths that the Space had and no longer has."""

    address: str
    commit: str
    removed: tuple[str, ...]


def checked_name(space: str) -> str:
    """Raises DeployError."""
    if not _NAME.fullmatch(space):
        raise DeployError(
            f"SPACE is {space[:80]!r}; it must be the owner and the name of a Space, such as me/mars-playground."
        )
    return space


def deploy(
    api: HfApi, space: str, flavour: Flavour, files: Sequence[Upload], message: str, *, private: bool = False
) -> Deployed:
    """The Space with exactly ``files``. Its secrets, and variables that it has already, are left alone. Raises DeployError."""
    checked_name(space)
    with explained(space):
        api.whoami()
        api.create_repo(
            space,
            repo_type="space",
            space_sdk=flavour.sdk,
            space_hardware=flavour.hardware,  # type: ignore[arg-type]  # one of its values
            private=private or None,
            exist_ok=True,
        )
        head = api.space_info(space).sha
        present = api.list_repo_files(space, repo_type="space", revision=head)
        going = {file.path for file in files}
        removed = tuple(sorted(path for path in present if path not in going | KEPT))
        _set_variables(api, space, flavour)
        commit = api.create_commit(
            space,
            [
                *(CommitOperationAdd(file.path, file.content) for file in files),
                *(CommitOperationDelete(path, is_folder=False) for path in removed),
            ],
            commit_message=message,
            repo_type="space",
            parent_commit=head,  # refused where somebody else changed the Space meanwhile
        )
    return Deployed(f"https://huggingface.co/spaces/{space}", commit.oid, removed)


def _set_variables(api: HfApi, space: str, flavour: Flavour) -> None:
    """Before the commit, which starts the Space."""
    if flavour.pairs and "MARS_PAIRS" not in api.get_space_variables(space):
        api.add_space_variable(space, "MARS_PAIRS", flavour.pairs, description="Pairs of models that are offered")


@contextmanager
def explained(space: str) -> Iterator[None]:
    """Whatever the Hub's client raises leaves as a DeployError with the way out; the token is in no message."""
    try:
        yield
    except DeployError:
        raise
    except LocalTokenNotFoundError as error:
        raise DeployError("There is no token of the Hugging Face Hub: run `hf auth login`, or set HF_TOKEN.") from error
    except (OfflineModeIsEnabled, ConnectionError, TimeoutError) as error:
        raise DeployError(_UNREACHABLE) from error
    except RepositoryNotFoundError as error:
        raise DeployError(
            f"The Space {space} cannot be reached with this token: check the owner, and that the token may write there."
        ) from error
    except HFValidationError as error:
        raise DeployError(f"{space!r} is not a name of a Space: write owner/name.") from error
    except HfHubHTTPError as error:
        raise DeployError(_answered(error, space)) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        raise DeployError(_UNREACHABLE) from error


_UNREACHABLE = "The Hugging Face Hub cannot be reached: connect (and unset HF_HUB_OFFLINE), then try again."


_ANSWERS = {
    401: "The Hugging Face Hub does not know this token: run `hf auth login` again, or set another HF_TOKEN.",
    402: "The account of {space} may not have this hardware without a paid plan: choose FLAVOUR=zerogpu, or pay.",
    403: "This token may not write to {space}: make one with write access for its owner, and log in with it.",
    409: "The Space {space} was changed by somebody else meanwhile: look at it, then deploy again.",
    412: "The Space {space} was changed by somebody else meanwhile: look at it, then deploy again.",
    413: "The Hub finds the files too large for {space}; nothing was changed.",
    429: "The Hugging Face Hub asks to slow down: try again in some minutes.",
}


def _answered(error: HfHubHTTPError, space: str) -> str:
    status = getattr(error.response, "status_code", None)
    other = f"The Hugging Face Hub answered {status or 'an error'} for {{space}}: try again later."
    return _ANSWERS.get(status or 0, other).format(space=space)
