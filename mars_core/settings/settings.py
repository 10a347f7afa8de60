"""The settings of a run as values, and what follows from them: models, sampling, lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mars_core import __version__
from mars_core.drafting import DRAFTERS
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.numbers import quoted
from mars_core.settings.drafts import SERVED, Drafts, LaneSettings, named_drafter
from mars_core.settings.setting import checked
from mars_core.settings.table import PROCESSORS, Table
from mars_core.types import (
    SERVER,
    DrafterConfig,
    ModelRef,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Table):
    """What the runs of one prompt are to do, one run a lane. Raises ValueError for a value that
    cannot be."""

    def __post_init__(self) -> None:
        """Have address and model of every server in its lane, and nowhere else."""
        checked(self)
        object.__setattr__(self, "rules", tuple(self._lanes()))
        for name in SERVED:
            object.__setattr__(self, name, ())

    def _lanes(self) -> Iterator[LaneSettings]:
        """Yield the lanes, of which those that are servers take ``server`` and ``server_model`` in
        their order, the last one for all that follow. A server without a lane is after the others."""
        servers, models = [*filter(None, self.server)], iter(self.server_model)
        known = [lane.rule.name for lane in self.rules].count(SERVER)
        added = [LaneSettings(RuleConfig(SERVER))] * (len(servers) - known)
        urls, url, model = iter(servers), "", ""
        for lane in (*self.rules, *added):
            if lane.rule.name == SERVER:
                url, model = next(urls, url), next(models, model)
                own = url or lane.server, model or lane.server_model
                yield LaneSettings(lane.rule, {}, *own)
            else:
                yield lane

    def spec(self, catalog: Sequence[PairSpec] = CATALOG) -> PairSpec:
        """Return the pair with its models. Raises ValueError, ModelError."""
        kind, path = named_drafter(self.drafter)
        own = {"draft": self.draft, "head": self.head, "classifier": self.classifier}
        own |= {DRAFTERS[kind].part: path} if path else {}
        key = self.pair or catalog[0].key
        entry = next((spec for spec in catalog if spec.key == key), None)
        if entry is None:
            known = ", ".join(spec.key for spec in catalog)
            raise ValueError(f"pair is {quoted(key)}; it must be one of {known}.")
        if self.target:
            return custom_pair(self.target, *(each or None for each in own.values()))
        if not any(own.values()):
            return entry
        models = (each or getattr(entry, name) for name, each in own.items())
        custom = custom_pair(entry.target, *models)
        return replace(custom, title=entry.title, text=entry.text, theta=entry.theta)

    @property
    def own_models(self) -> bool:
        """Whether a model is named that no catalog has."""
        named = self.target, self.draft, self.head, self.classifier, named_drafter(self.drafter)[1]
        return any(named)

    @property
    def sampling(self) -> Sampling:
        processors = Processors(**{name: getattr(self, name) for name in PROCESSORS})
        return Sampling(self.temperature, self.top_k, self.top_p, processors)

    @property
    def prompt_config(self) -> PromptConfig:
        return PromptConfig(
            self.prompt, self.system, self.chat, self.stop, (), self.thinking, self.structure
        )

    def served(self, lane: LaneSettings) -> RunConfig:
        """Return the run of a lane that is a server, which relaxes what it will. Raises
        ValueError."""
        if not lane.server:
            raise ValueError("server is empty; a lane that is a server takes its base URL.")
        if self.prefix:
            raise ValueError("prefix has token ids, which a server cannot be given.")
        return RunConfig(
            self.prompt_config,
            ModelRef(lane.server_model),
            DrafterConfig(SERVER, None, 0),
            RuleConfig(SERVER),
            replace(self, protect=()).sampling,
            self.max_new_tokens,
            self.seed,
            {"app": __version__, SERVER: lane.server},
        )

    def of(self, lane: LaneSettings) -> Drafts:
        """Return where the drafts of a lane come from; another drafter has another tree."""
        shared = {"tree": ""} if "drafter" in lane.drafts else {}
        return replace(self, **shared | dict(lane.drafts))
