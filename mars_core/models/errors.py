"""Why a model cannot be used, in one sentence that ends with the way out.

Turns what the Hub client, safetensors, transformers and torch raise into a ModelError. Loads nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError

from mars_core.types import ModelRef

_LONGEST = 240  # characters of a foreign message that are passed on


class ModelError(ValueError):
    """A model or pair that cannot be used here: one clear sentence with the reason and the way out."""


@contextmanager
def explained(ref: ModelRef) -> Iterator[None]:
    """Whatever the libraries raise while ``ref`` is fetched, read or built leaves as a ModelError.

    Damaged or hostile checkpoints make third-party code raise anything, hence the broad net at this one border.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(explain(error, ref)) from error


def explain(error: Exception, ref: ModelRef) -> str:
    """One sentence for ``error``, with the model's name and the way out."""
    return _hub_reason(error, ref) or _local_reason(error, ref) or f"{ref.name} cannot be loaded: {_brief(error)}."


def _hub_reason(error: Exception, ref: ModelRef) -> str | None:
    """The order matters: a gated repository is a kind of missing one, and most of these are OSErrors."""
    name, page = ref.name, f"https://huggingface.co/{ref.name}"
    match error:
        case GatedRepoError():
            return (
                f"{name} asks for its licence to be accepted: accept it on {page}, then log in with `hf auth login` "
                "or set HF_TOKEN, and try again."
            )
        case RevisionNotFoundError():
            return f"{name} has no revision {ref.revision!r}: choose one listed on {page}/tree/main, or none."
        case RepositoryNotFoundError():
            return (
                f"There is no public model {name} on the Hugging Face Hub: check the name, or, if it is private, "
                "log in with `hf auth login` or set HF_TOKEN."
            )
        case DisabledRepoError():
            return f"{name} has been disabled on the Hugging Face Hub: choose another model."
        case HFValidationError():
            return (
                f"{name!r} is neither a folder here nor a Hub id: write it as owner/name, or as the path of a folder."
            )
        case OfflineModeIsEnabled() | LocalEntryNotFoundError() | ConnectionError() | TimeoutError():
            return _unreachable(ref)
        case HfHubHTTPError():
            status = getattr(error.response, "status_code", "an error")
            return f"The Hugging Face Hub answered {status} for {name}: try again later, or give a local folder."
    return _unreachable(ref) if _is_transport(error) else None


def _unreachable(ref: ModelRef) -> str:
    return (
        f"{ref.name} is not completely on this machine and the Hugging Face Hub cannot be reached: connect (and unset "
        f"HF_HUB_OFFLINE), or fetch it elsewhere with `hf download {ref.name}` and give the folder."
    )


def _is_transport(error: Exception) -> bool:
    """The Hub client lets errors of its HTTP library through, which is not a dependency of ours, so by name."""
    return type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "requests")


def _local_reason(error: Exception, ref: ModelRef) -> str | None:
    name, message = ref.name, str(error)
    if isinstance(error, SafetensorError):
        return f"The weights of {name} are damaged ({_brief(error)}): fetch or save them again."
    if is_out_of_memory(error):
        return f"There is not enough memory for {name}: choose a smaller model, or a smaller dtype."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"There is no space left on the disk for {name}: free some, or set HF_HOME to a larger disk."
    if isinstance(error, PermissionError):
        return f"{error.filename or name} may not be read or written: give this user access, or set HF_HOME."
    if "trust_remote_code" in message:
        return (
            f"{name} brings its own Python code, which is never run here: choose a model whose architecture is part of "
            "transformers."
        )
    if "does not recognize this architecture" in message or "Unrecognized configuration class" in message:
        return f"{name} is not a causal language model that the installed transformers knows: choose another model."
    return None


def is_out_of_memory(error: Exception) -> bool:
    """torch has a type of its own only for devices; the host's allocator raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _brief(error: Exception) -> str:
    """The first line of a foreign message, shortened, without the dot at its end."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = " ".join(lines[0].split())
    return (line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…").rstrip(".:")
