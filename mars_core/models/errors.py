"""Error messages for models that cannot be used: one sentence with the reason and what to do.

Converts exceptions of the Hub client, safetensors, transformers and torch to ModelError.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import errors as hub
from safetensors import SafetensorError

from mars_core.lazy import torch
from mars_core.panics import contained
from mars_core.types import ModelRef

_LONGEST = 240  # characters of a library's message that are passed on
# The Hub client passes on errors of its HTTP library, which is not a direct dependency, hence the
# module name.
_TRANSPORT = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")
_LOGIN = "log in with `hf auth login` or set HF_TOKEN"
_UNREACHABLE = (
    "{name} is not completely on this machine and the Hugging Face Hub cannot be reached: connect "
    "(and unset "
    "HF_HUB_OFFLINE), or fetch it elsewhere with `hf download {name}` and give the folder."
)
# In this order: a gated repository is a kind of missing one, and most of these are OSErrors.
_BY_TYPE: tuple[tuple[type[Exception], str], ...] = (
    (
        hub.GatedRepoError,
        "{name} asks for its licence to be accepted: accept it on {page}, then "
        + _LOGIN
        + ", and try again.",
    ),
    (
        hub.RevisionNotFoundError,
        "{name} has no revision {revision!r}: choose one listed on {page}/tree/main, or none.",
    ),
    (
        hub.RepositoryNotFoundError,
        "There is no public model {name} on the Hugging Face Hub: check the name, or, if it is "
        "private, " + _LOGIN + ".",
    ),
    (
        hub.DisabledRepoError,
        "{name} has been disabled on the Hugging Face Hub: choose another model.",
    ),
    (
        hub.HFValidationError,
        "{name!r} is neither a folder here nor a Hub id: write it as owner/name, or as the path of "
        "a folder.",
    ),
    (hub.LocalEntryNotFoundError, _UNREACHABLE),
    (ConnectionError, _UNREACHABLE),
    (TimeoutError, _UNREACHABLE),
    (
        hub.HfHubHTTPError,
        "The Hugging Face Hub answered {status} for {name}: try again later, or give a local "
        "folder.",
    ),
    (SafetensorError, "The weights of {name} are damaged ({brief}): fetch or save them again."),
    (
        PermissionError,
        "{path} may not be read or written: give this user access, or set HF_HOME, for GGUF "
        "XDG_CACHE_HOME.",
    ),
)
_NO_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
)  # torch on a CPU, on Windows, on CUDA
_UNKNOWN_MODEL = "{name} is not a causal language model that the installed transformers knows: choose another model."
_BY_MESSAGE = {
    "trust_remote_code": "{name} brings its own Python code, which is never run here: choose a model whose architecture is "
    "part of transformers.",
    "is not supported yet": "transformers cannot read the architecture of {name} from GGUF: give the model as a folder or a Hub id.",
    "does not recognize this architecture": _UNKNOWN_MODEL,
    "Unrecognized configuration class": _UNKNOWN_MODEL,
}


class ModelError(ValueError):
    """A model or pair that cannot be used here: one sentence with the reason and what to do."""


@contextmanager
def explained(ref: ModelRef) -> Iterator[None]:
    """Converts all exceptions raised while ``ref`` is fetched, read or built to ModelError. Damaged
    or hostile checkpoints can make third-party code raise any exception, hence the broad
    handler."""
    try:
        with contained():
            yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            _template(error).format(
                name=ref.name,
                page=f"https://huggingface.co/{ref.name}",
                revision=ref.revision,
                status=getattr(getattr(error, "response", None), "status_code", "an error"),
                path=getattr(error, "filename", None) or ref.name,
                brief=brief(error).rstrip(".:"),
            )
        ) from error


def _template(error: Exception) -> str:
    """Return the message template for an error: one sentence with the reason and what to do."""
    for kind, template in _BY_TYPE:
        if isinstance(error, kind):
            return template
    if type(error).__module__.partition(".")[0] in _TRANSPORT:
        return _UNREACHABLE
    if is_out_of_memory(error):
        return "There is not enough memory for {name}: choose a smaller model, or a smaller dtype."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "There is no space left on the disk for {name}: free some, or set HF_HOME, for GGUF XDG_CACHE_HOME, to a larger disk."
    return next(
        (text for part, text in _BY_MESSAGE.items() if part in str(error)),
        "{name} cannot be loaded: {brief}.",
    )


def is_out_of_memory(error: Exception) -> bool:
    """torch has a specific type for devices only; the host's allocator and parts of CUDA raise a
    plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        text in str(error) for text in _NO_MEMORY
    )


def brief(error: Exception) -> str:
    """Return the first line of a library's message, shortened."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = " ".join(lines[0].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
