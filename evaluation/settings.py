"""The settings of a study, each declared once. The command line and the page's form are made from
this table, and its plan from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.plan.lane import MOST_SEEDS, PLACEBO_SEEDS, SCALES
from evaluation.plan.lengths import LEAST, MOST
from evaluation.plan.models import MAX_CONCURRENCY
from evaluation.plan.plan import PlanSettings
from evaluation.suites.read import BUILT_IN
from mars_core.drafting import offered
from mars_core.rules import RULES
from mars_core.settings import KINDS
from mars_core.settings.kind import (
    Flag,
    Names,
    Number,
    Numbers,
    Text,
    Whole,
    Words,
)
from mars_core.settings.setting import checked, kinds, setting

RULES_OF_STUDY = ("none", "strict", "mars")
_ITS_MODEL = "its model (default: the only one it has)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySettings(PlanSettings):
    """What a study is to do, as a person says it; what its runs have in common is ``Settings``.
    Raises ValueError for a value that cannot be."""

    suite: tuple[str, ...] = setting(
        (),
        Words(
            f"{', '.join(BUILT_IN)}, or a file in the question.jsonl format", metavar="NAME|FILE"
        ),
    )
    prompt: tuple[str, ...] = setting(
        (), Words("a prompt; all together are the suite prompts", metavar="TEXT", least=0)
    )
    reference: tuple[str, ...] = setting(
        (),
        Words(
            "the right answer to a --prompt, in their order, '' where it is not known",
            metavar="TEXT",
            least=0,
        ),
    )
    lengths: tuple[int, ...] = setting(
        (),
        Numbers(
            "ask every prompt after stories that fill it to so many tokens, 64 to 16384, one or "
            "more, separated by commas (of servers: about as many)",
            Whole("", LEAST, MOST),
            metavar="TOKENS",
        ),
    )
    name: str = setting("", Text("a name for the study"))
    rules: tuple[str, ...] = setting(
        (),
        Names(
            f"of {', '.join(RULES)} (default {','.join(RULES_OF_STUDY)}); with --server also server "
            "(docs/evaluation.md)"
        ),
    )
    drafter: tuple[str, ...] = setting(
        (),
        Names(
            f"of {', '.join(offered(None)[:-1])}; several separated by commas (default: the pair's)",
            section="run",
            title="Drafts from",
        ),
    )
    k: tuple[int, ...] = setting(
        (),
        Numbers(
            "drafted tokens per step, for chains; one or more, separated by commas (default: the "
            "pair's)",
            KINDS["k"],
            section="run",
            title="K, drafted tokens",
        ),
    )
    temperature: tuple[float, ...] = setting(
        (0.0,),
        Numbers(
            "one or more, separated by commas",
            KINDS["temperature"],
            section="run",
            title="Temperatures",
        ),
    )
    placebos: bool = setting(
        True,
        Flag(
            "run controls: as many tokens as each rule relaxes at random places, all drafts kept, "
            "lower temperatures",
            section="values",
        ),
    )
    placebo_seeds: int = setting(
        PLACEBO_SEEDS,
        Whole("draws of the random places for each prompt, averaged", 1, MOST_SEEDS),
    )
    sharpened: tuple[float, ...] = setting(
        SCALES,
        Numbers(
            "above temperature 0 also strict at these shares of it, which tells what likelier "
            "tokens alone do to the score; empty: none",
            Number("", 0.01, 0.99),
            least=0,
        ),
    )
    server: str = setting(
        "",
        Text(
            "measure an OpenAI-compatible server; the key is read from MARS_SERVER_KEY",
            metavar="URL",
        ),
    )
    server_model: str = setting("", Text(_ITS_MODEL, metavar="NAME"))
    baseline: str = setting("", Text("another server for the lane strict", metavar="URL"))
    baseline_model: str = setting("", Text(_ITS_MODEL, metavar="NAME"))
    concurrency: tuple[int, ...] = setting(
        (1,),
        Numbers(
            "requests in flight at a server; of several values each takes an equal part of the "
            "seeds",
            Whole("", 1, MAX_CONCURRENCY),
        ),
    )
    batch: str = setting(
        "",
        Text(
            "runs to decode together (default 1; auto: measured): faster, but without times of "
            "single runs; of several numbers each decodes every task, to compare their throughput",
            metavar="auto|N1,N2",
        ),
    )

    def __post_init__(self) -> None:
        checked(self)


STUDY = kinds(StudySettings)
