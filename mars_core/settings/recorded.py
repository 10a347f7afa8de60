"""The settings that repeat runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mars_core.drafting import described
from mars_core.models import CATALOG, PairSpec
from mars_core.rules import PLAIN
from mars_core.settings.drafts import LaneSettings, drafts_of
from mars_core.settings.setting import given
from mars_core.settings.settings import Settings
from mars_core.settings.table import KINDS, OF_RUNS, value_in
from mars_core.types import ANSWER, SERVER, ModelRef, RuleConfig, RunConfig

OTHER_SAMPLER = "These runs were drawn by an earlier sampler; with the same seed, the text at temperatures above 0 will be another one."


CONTINUED = "A run that continues another begins with what that one had spent, which no file has."
READ = "The answers of files are not asked for again; --answer FILE names them."
REPEATED = "Saved as run.json: mars compare --config run.json"


def settings_of(configs: Sequence[RunConfig], catalog: Iterable[PairSpec] = CATALOG) -> Settings:
    """Return the settings of runs that differ in rules and drafters; what else they are is as in
    the first that drafts; of servers beside them, address and model."""
    configs = [each for each in configs if ANSWER not in each.environment] or configs
    here, base = _here(configs), first_drafting(configs)
    drafts, read = drafts_of(base.drafter), {name: value_in(base, name) for name in OF_RUNS}
    lanes = [
        LaneSettings(each.rule, {} if each.rule.name == PLAIN or own == drafts else own)
        if each in here
        else LaneSettings(RuleConfig(SERVER), {}, each.environment[SERVER], each.target.name)
        for each in configs
        for own in [drafts_of(each.drafter)]
    ]
    return Settings(
        **drafts,
        **_models(here, base, catalog),
        rules=tuple(lanes),
        **read,
        prompt=base.prompt.text,
        device=base.environment.get("device", "").partition(" ")[0] or "auto",
        dtype=base.environment.get("dtype", "auto"),
    )


def _here(configs: Sequence[RunConfig]) -> Sequence[RunConfig]:
    """Return the runs that no server made; all where there are none of these."""
    return [each for each in configs if not each.served] or configs


def first_drafting(configs: Sequence[RunConfig]) -> RunConfig:
    here = _here(configs)
    return next((each for each in here if each.drafter.kind != PLAIN), here[0])


def cautions(configs: Sequence[RunConfig]) -> list[str]:
    """Return what the documents cannot repeat."""
    notes = {OTHER_SAMPLER: any(each.draws_otherwise for each in configs)}
    notes |= {CONTINUED: any(each.spent for each in configs)}
    notes |= {READ: any(ANSWER in each.environment for each in configs)}
    return [note for note, holds in notes.items() if holds]


def documents(configs: Sequence[RunConfig]) -> list[dict[str, Any]]:
    """Return the settings of runs as JSON values, in one object where one repeats them all."""
    here, base = _here(configs), first_drafting(configs)
    same = all(
        replace(each, rule=base.rule, drafter=base.drafter, environment=base.environment) == base
        and each.environment.get("device") == base.environment.get("device")
        and each.environment.get("dtype") == base.environment.get("dtype")
        for each in here
    )
    return [plain(settings_of(each)) for each in ([configs] if same else zip(configs))]


def plain(settings: Settings) -> dict[str, Any]:
    """Return the settings that are not the default, as JSON has them."""
    return {name: KINDS[name].plain(value) for name, value in given(settings).items()}


def pair_key(config: RunConfig, catalog: Iterable[PairSpec] = CATALOG) -> str:
    """Return the key of the catalog pair with the run's models, or nothing."""
    for spec in catalog:
        offered = described(config.drafter.kind).model(spec)
        drafts = config.drafter.model is None or _offers(offered, config.drafter.model)
        if _offers(spec.target, config.target) and drafts:
            return spec.key
    return ""


def model_name(ref: ModelRef) -> str:
    """Return a model as a setting names it, without the revision of a folder, which is a hash of
    its content."""
    pinned = ref.revision and not ref.revision.startswith("local:")
    return f"{ref.name}@{ref.revision}" if pinned else ref.name


def _models(
    configs: Sequence[RunConfig], base: RunConfig, catalog: Iterable[PairSpec]
) -> dict[str, Any]:
    entry = next((spec for spec in catalog if spec.key == pair_key(base, catalog)), None)
    read = next(filter(None, (each.environment.get("classifier") for each in configs)), "")
    name, _, revision = read.rpartition("@")
    own = name and not (entry and _offers(entry.classifier, ModelRef(name, revision)))
    models = {"classifier": model_name(ModelRef(name, revision))} if own else {}
    if entry:
        return models | {"pair": entry.key}
    drafted = [each.drafter for each in configs if each.drafter.model]
    models |= {described(each.kind).part: model_name(each.model) for each in drafted if each.model}
    return models | {"target": model_name(base.target)}


def _offers(offered: ModelRef | None, used: ModelRef) -> bool:
    """Return whether a catalog entry matches the model used; one without a pinned revision matches
    any."""
    return (
        offered is not None
        and offered.name == used.name
        and offered.revision in (None, used.revision)
    )
