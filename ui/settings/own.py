"""What the page says of models of one's own before they are loaded, and what is offered to choose
from in a folder of this machine."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from display.format import displayable, memory, number, plural
from display.format import parameters as parameters_text
from mars_core.models import PairSpec
from mars_core.models.memory import MemoryFit, read_speed
from mars_core.models.source import GGUF
from ui.jobs.services import Services
from ui.settings.values import MODELS, EnteredValues, as_text, read_settings

if TYPE_CHECKING:
    from mars_core.models.summary import Summary

MOST_LISTED, MOST_READ = 60, 5000  # entries of a folder
PLACES = (  # in a home directory, where files that were fetched are
    *("Downloads", "Desktop", "Documents", "models", ".cache/huggingface/hub"),
    *(".lmstudio/models", ".cache/lm-studio/models", ".cache/llama.cpp", ""),
)
DEEPEST, MOST_SEEN = 4, 20_000  # folders in each other, entries in all
PATIENCE_S = 3.0
ABOUT_CUSTOM = (
    "A target, and a draft model that shares its vocabulary, or an EAGLE-3 head trained for it: "
    "Hub ids, folders with safetensors, or, of models, GGUF files (a path, or "
    "owner/name/file.gguf). Without both, drafts come from the text itself."
)
ON_HUB = "target: on the Hub, which does not answer; its size is known once it is fetched"


class PairNote(NamedTuple):
    """``facts``: of the pair; ``choices``: what stands in a folder, each with its path, to fill the
    field ``into``; ``named``: a model that is to be remembered."""

    text: str
    ok: bool = True
    facts: Sequence[str] = ()
    choices: Sequence[tuple[str, str]] = ()
    into: str = ""
    named: str = ""


def named_models(values: EnteredValues) -> SimpleNamespace:
    """Return the models of one's own that are named, the others None."""
    return SimpleNamespace(**{name: as_text(values.get(name)).strip() or None for name in MODELS})


def known_of(services: Services, spec: PairSpec) -> tuple[PairSpec, dict[str, Summary]]:
    """Return what the headers of its models say. Raises ModelError."""
    if not hasattr(sys.modules.get("mars_core.session"), "Session"):
        # with transformers, which breaks where another thread than the engine's imports it meanwhile
        services.engine.submit(import_module, "mars_core.session").result()
    from mars_core.models.summary import summarised

    return summarised(spec)


def own_pair(services: Services, values: EnteredValues) -> tuple[PairSpec | None, PairNote]:
    """Return the pair of one's own models, and what is known of it before it is loaded; or why
    there is none, if anything is given."""
    typed = {name: as_text(values.get(name)) for name in MODELS}
    for name, each in typed.items():
        if (choices := listed(each)) is not None:
            says = f"Choose the {name} in {each.strip()}:"
            return None, PairNote(says, choices=choices, into=name)
    if not any(typed.values()):
        return None, PairNote(ABOUT_CUSTOM)
    try:
        spec, summaries = known_of(services, read_settings(values, "", *MODELS).spec())
        fit = services.pool.fits(spec, kept=all(each.kept for each in summaries.values()))
    except ValueError as error:
        files = getattr(error, "files", {}).items()  # of a repository of which one must be named
        choices = [
            (f"{name.split('/')[2]}, {memory(size)}", name)
            for name, size in islice(files, MOST_LISTED)
        ]
        repository = str(error).partition(" ")[0]
        into = next((name for name, each in typed.items() if repository in each), "")
        return None, PairNote(str(error), bool(choices), choices=choices, into=into)
    facts = [f"{name}: {', '.join(_facts(each))}" for name, each in summaries.items()]
    facts += [] if "target" in summaries else [ON_HUB]
    facts += [*_fitting(fit), _speed(services, spec, summaries.get("target"), fit)]
    return spec, PairNote(spec.note, _may_fit(fit), facts, named=typed["target"].strip())


def listed_pair(services: Services, spec: PairSpec, *, drawn: bool) -> PairNote:
    """Return what a pair of the catalog can do, and, once the page is ``drawn``, what memory it
    needs, which is not for strangers."""
    sizes = filter(None, (spec.draft_parameters, spec.target_parameters))
    words = " → ".join(map(parameters_text, sizes))
    facts = [f"{words} parameters"] if words else []
    fit = services.pool.fits(spec) if drawn else None
    facts += _fitting(fit) if fit and not services.public else []
    return PairNote(spec.note, fit is None or _may_fit(fit), facts)


def _facts(summary: Summary) -> Iterator[str]:
    yield displayable(summary.architecture[:60])
    yield displayable(summary.numbers[:60])
    yield memory(summary.file_bytes) + ("" if summary.fetched else " to fetch")
    if summary.parameters:
        yield f"{parameters_text(summary.parameters)} parameters"
    yield "fast layers" if summary.fast else "no fast layers, those of transformers"


def _may_fit(fit: MemoryFit) -> bool:
    """Return whether a pair fits, or its size is not known."""
    return fit.fits or not fit.needed_bytes


def _fitting(fit: MemoryFit) -> list[str]:
    verdict = "fits" if fit.fits else "does not fit"
    needed, free = memory(fit.needed_bytes), memory(fit.available_bytes)
    known = f"needs {needed}, {free} free on {fit.device}: {verdict}"
    return [known] if fit.needed_bytes else []


def _speed(services: Services, spec: PairSpec, target: Summary | None, fit: MemoryFit) -> str:
    """Return the speed of its runs here, else what reading its weights allows."""
    if pace := services.paces.of(spec.target.name):
        slowest = number(1 / pace.longest)
        return f"{slowest} tokens/s or more in its last {plural(pace.runs, 'run')} here"
    if target and target.kept and fit.device == "cpu" and fit.fits:
        with suppress(TimeoutError):  # while a job runs, what is measured beside it says nothing
            speed = services.engine.submit(read_speed).result(timeout=PATIENCE_S)
            size = target.read_bytes
            return (
                f"without drafts at best about {number(speed / size, 2)} tokens/s: {memory(size)} "
                f"are read for each, {memory(speed)} a second here"
            )
    return "speed known after its first run"


def listed(typed: str) -> list[tuple[str, str]] | None:
    """Return the folders and GGUF files of a folder, the folder above first; None where ``typed``
    is none, or one with a model."""
    path = Path(typed.strip())
    try:
        folder = path.expanduser().resolve()
        if not typed.strip() or not folder.is_dir() or (folder / "config.json").exists():
            return None
        with os.scandir(folder) as entries:
            found = [
                (not each.is_dir(), each.name)
                for each in islice(entries, MOST_READ)
                if not each.name.startswith(".") and (each.is_dir() or each.name.endswith(GGUF))
            ]
    except (OSError, RuntimeError, ValueError):
        return None
    rows = [(name if file else f"{name}/", str(folder / name)) for file, name in sorted(found)]
    return [("↑", str(folder.parent)), *rows[:MOST_LISTED]]


def dropped(name: str, size: int) -> str:
    """Return the path of a file that was dropped on the page, of which a browser tells only its name
    and size: the first one of both in the usual folders of this machine. For a folder with a model
    the name is enough. Without one the name itself is returned."""
    home = Path("~").expanduser()
    folders = deque((folder, 0) for folder in (Path(), *(home / each for each in PLACES)))
    seen = 0
    while folders and seen < MOST_SEEN:
        folder, depth = folders.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for each in islice(entries, MOST_READ):
                seen += 1
                path, inside = Path(each.path), each.is_dir()
                if each.name == name and _is_model(path, size):
                    return str(path.absolute())
                if inside and depth < DEEPEST and not each.name.startswith("."):
                    folders.append((path, depth + 1))
    return name


def _is_model(path: Path, size: int) -> bool:
    """Return whether a file has this size, or a folder a configuration; False for a broken link."""
    with suppress(OSError):
        return (path / "config.json").exists() if path.is_dir() else path.stat().st_size == size
    return False
