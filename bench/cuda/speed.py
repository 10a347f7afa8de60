"""Steps beside their lower bounds, and our decoding beside transformers' own and a plain loop."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.common.bounds import bandwidth, weight_bytes
from bench.common.decoding import DRAFTERS, Ours
from bench.common.measure import Method, Samples, interleaved, median_speed, overall_tau, ratio
from bench.common.peers import assisted, greedy, looped, prompted
from bench.common.report import Figure
from bench.coupled import coupled_models, prompts
from bench.cuda.trial import NOISE, Trial
from mars_core.models import Pair

K = DRAFTERS["draft model"].k
LOOP = "gpt-fast-style loop"
STRICT = "strict, draft model"
SPEED_GOALS = (("assisted", 2.5), (LOOP, 1.2))  # of strict at temperature 0, at least
VERIFY_GOAL, STEP_GOAL = 1.15, 1.3  # times the lower bound, at most


def speed(trial: Trial, key: str) -> Iterator[Figure]:
    """Of one pair: lower bounds, then temperature 0 with the peers, then temperature 1."""
    pair = trial.pair(key)
    strict = trial.ours(pair, "draft model")
    for prompt in prompts(3):
        strict(prompt, 0)
    yield from bounds(strict, bandwidth(trial.device, 2**22 if trial.tiny else 2**31))
    samples = _taken(trial, {**_ours(trial, pair, 0.0), **_peers(trial, pair, key)}, 0.75)
    yield from goals(samples)
    yield from rows(samples, 0.0)
    yield from rows(_taken(trial, _ours(trial, pair, 1.0), 1.0), 1.0)


def _taken(trial: Trial, methods: dict[str, Method], part: float) -> Samples:
    return interleaved(methods, prompts(trial.prompts), trial.rounds, warm_up=1, until=trial.share(part))


def _ours(trial: Trial, pair: Pair, temperature: float) -> dict[str, Method]:
    drafted = [name for name in trial.drafters if name not in ("none", "n-grams")]
    found: dict[str, Method] = {"none": trial.ours(pair, "none", temperature)}
    for name in drafted:
        for rule in ("strict", "mars"):
            found[f"{rule}, {name}"] = trial.ours(pair, name, temperature, rule=rule)
    return found


def _peers(trial: Trial, pair: Pair, key: str) -> dict[str, Method]:
    """On models as transformers makes them."""
    target, draft = coupled_models(trial.trio(key), NOISE, trial.device, trial.dtype)
    found = {"generate": greedy(target), "assisted": assisted(target, draft, K), LOOP: looped(target, draft, K)}
    return {name: prompted(decoder, pair.tokenizer, trial.tokens) for name, decoder in found.items()}


def bounds(method: Ours, bytes_a_s: float) -> Iterator[Figure]:
    """Of the steps that ``method`` has taken with a whole draft: medians over the times in which their bytes could be read."""
    whole = [step for step in method.timed if step.drafted == K]
    target, draft = weight_bytes(method.pair.target) / bytes_a_s, K * weight_bytes(method.pair.draft) / bytes_a_s
    parts = (
        ("verify", median(step.verify_s for step in whole), target, VERIFY_GOAL),
        ("draft", median(step.draft_s for step in whole), draft, None),
        ("step", median(step.step_s for step in whole), target + draft, STEP_GOAL),
    )
    for name, seconds, bound, most in parts:
        note = f"{1e3 * seconds:.3f} ms, bound {1e3 * bound:.3f} ms; {method.path}"
        yield Figure(f"{STRICT}: {name} / its lower bound", seconds / bound, "×", note, most=most)
    yield Figure("bandwidth", bytes_a_s / 1e9, "GB/s", "of a large buffer on the device, bytes read and written")


def goals(samples: Samples) -> Iterator[Figure]:
    for baseline, least in SPEED_GOALS:
        yield Figure(f"{STRICT} / {baseline}", ratio(samples, STRICT, baseline).median, "×", least=least)


def rows(samples: Samples, temperature: float) -> Iterator[Figure]:
    """Of every method, beside the first."""
    baseline = next(iter(samples))
    for name, own in samples.items():
        beside, tau = ratio(samples, name, baseline), overall_tau(own)
        note = f"{beside.median:.2f}× {baseline} ({beside.low:.2f}–{beside.high:.2f} of {beside.count})"
        note += "" if tau is None else f", τ {tau:.2f}"
        yield Figure(f"{name}, T = {temperature:g}", median_speed(own), "tokens/s", note)
