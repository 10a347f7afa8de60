"""The catalog of pairs, and pairs of the user's models.

Hub models are pinned to a commit. Parameters are counted over all weights, tied ones once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mars_core.models import smollm2
from mars_core.models.memory import needed
from mars_core.models.source import BUNDLED, SMOLLM2_HEAD, label, parse_ref
from mars_core.types import ModelRef, TreeShape

GENERAL_PROMPTS = (
    "Explain in three sentences why the sky is blue.",
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in "
    "May. How many clips did Natalia sell altogether in April and May?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
)
SMOLLM2_PROMPTS = (  # those whose answers differ under MARS do so within a sentence first
    "Explain what a hash table is.",
    "What is the capital of France?",
    "Write a Python function that returns the sum of a list.",
    "What is gravity?",
    "Make this sentence shorter: Due to the fact that it was raining very heavily outside, we "
    "decided that we would stay at home.",
    "Give three reasons to learn to cook.",
)
BUNDLED_PROMPTS = (
    "Tell me a story about Mia and a lantern.",
    "Anna has 9 jars with 7 ribbons in each. Then she hands 56 of them to Omar. How many ribbons "
    "does Anna have in the end?",
    "A story about Greta in a village, please.",
    "Ravi has 32 books and Omar has 28. How many more does Ravi have?",
    "Tell a story about a restless boy called Sam.",
    "Ivan has 51 toy cars and puts 3 in each bag. How many bags does he need?",
)
# As the models of a pair answer: on the first 120 tokens the check at loading is made and margins
# are measured.
GENERAL_TEXT = (
    "The air scatters short waves of sunlight, such as blue, much more than long ones, such as "
    "red. That is why blue light reaches our eyes from every part of the sky.\n\nIn May, Natalia "
    "sold 48 / 2 = 24 clips. In April and May together she sold 48 + 24 = 72 clips. The answer is "
    "72.\n\nOld Tom had kept the lighthouse for thirty years. One morning after a storm, he found "
    "a green bottle between the rocks, with a letter inside.\n\ndef fibonacci(n):\n    a, b = 0, "
    "1\n    for _ in range(n):\n        a, b = b, a + b\n    return a"
)
BUNDLED_TEXT = (
    "Once upon a time, there lived a cheerful girl named Iris in a quiet farm. One night, a "
    "sudden storm came. The wind howled for hours and broke the old tree. Near the stone wall, a "
    "scared badger was waiting. Quickly, she took the compass and ran outside. With the compass, "
    "Iris found the way home.\n\nLeo begins with 69 books. Split 3 ways, we get 69 / 3 = 23. With "
    "the 30 new books, we get 23 + 30 = 53. So, Leo has 53 books.\n#### 53"
)


CUSTOM = "custom"  # the key of every pair of the user's models
USUAL_TREE = TreeShape()
SMALL_TREE = TreeShape(12, 6, 2)  # for targets too small to check more at no cost


class Theta(NamedTuple):
    """A default of θ and the reason for it, a sentence; empty for the paper's."""

    value: float
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Empty for the paper's."""
        why = f"θ = {self.value:g} is the default of this pair: {self.reason} The paper's is {PAPER_THETA.value:g}."
        return why if self.reason else ""


PAPER_THETA = Theta(0.9)


@dataclass(frozen=True, slots=True)
class PairSpec:
    """A pair of models. Parameter counts are 0 where they are unknown until the model's
    configuration is read."""

    key: str
    title: str
    target: ModelRef
    draft: ModelRef | None
    target_parameters: int
    draft_parameters: int
    note: str  # intended use, licence and access requirements
    prompts: tuple[str, ...] = GENERAL_PROMPTS  # examples that suit this pair
    head: ModelRef | None = None  # an EAGLE-3 head made for the target
    classifier: ModelRef | None = None  # a classifier made for it
    drafter: str = ""  # that a run begins with; by default the first of DRAFTERS that it has
    k: int = 5  # of the chains that a run begins with
    tree: TreeShape | None = USUAL_TREE  # of an EAGLE-3 head, to begin with; None: a chain
    temperature: float = 1.0  # to begin with
    text: str = GENERAL_TEXT  # as the target answers; ``Pair.margins`` are measured on it
    theta: Theta = PAPER_THETA

    def memory_bytes(self, each: int) -> int:
        """Return the bytes of weights, cache and activations of both models with ``each`` bytes a
        parameter; 0 where the size is not known yet."""
        known = self.target_parameters and (self.draft_parameters or self.draft is None)
        return needed(self.target_parameters + self.draft_parameters, each) if known else 0


def custom_pair(
    target: str | ModelRef,
    draft: str | ModelRef | None = None,
    head: str | ModelRef | None = None,
    classifier: str | ModelRef | None = None,
) -> PairSpec:
    """Return a pair of the user's models, named as ``parse_ref`` reads them. Raises ModelError.
    ``draft``: a smaller model; ``head``: an EAGLE-3 head; ``classifier``: of its hidden states.
    Without the first two, drafts come from the text itself, or there are none."""
    first = parse_ref(target) if isinstance(target, str) else target
    second, third, fourth = (
        parse_ref(each) if isinstance(each, str) else each for each in (draft, head, classifier)
    )
    title = _short(first) if second is None else f"{_short(second)} → {_short(first)}"
    note = "Your own models."
    return PairSpec(CUSTOM, title, first, second, 0, 0, note, head=third, classifier=fourth)


def _short(ref: ModelRef) -> str:
    return label(ref).rpartition("/")[2] or ref.name


_QWEN3_DRAFT = ModelRef("Qwen/Qwen3-0.6B", "c1899de289a04d12100db370d81485cdf75e47ca")
_QWEN3 = "General chat, reasoning and code in many languages; thinks before it answers. Apache 2.0, no account needed."
BUNDLED_PAIR = PairSpec(
    "bundled",
    "Bundled: stories and sums",
    ModelRef(BUNDLED[0]),
    ModelRef(BUNDLED[1]),
    8_657_152,
    1_082_112,
    "Comes with this program and runs at once on a CPU. It writes short stories and solves "
    "grade-school word problems in the words of its own training text, and knows nothing "
    "else. MIT licence.",
    tree=SMALL_TREE,
    prompts=BUNDLED_PROMPTS,
    text=BUNDLED_TEXT,
    head=ModelRef(BUNDLED[2]),
    classifier=ModelRef(BUNDLED[3]),
)
CATALOG: tuple[PairSpec, ...] = (
    PairSpec(
        "smollm2-135m",
        "SmolLM2 135M",
        ModelRef(smollm2.NAME),
        None,
        134_515_008,
        0,
        "General chat in English on any CPU: short answers, explanations, code; weak at sums. Its "
        "EAGLE-3 head comes with this program. Fetched once, 93 MB. Apache 2.0, no account needed.",
        prompts=SMOLLM2_PROMPTS,
        head=ModelRef(SMOLLM2_HEAD),
        drafter="eagle3",
        k=3,
        tree=None,  # a pass over a tree costs a CPU more than it gains
        temperature=0.0,
        theta=Theta(
            0.97,
            "its logits are large (z₁ about 24), so that θ = 0.9 keeps a runner-up with a tenth of "
            "p₁; 0.97 asks for about half.",
        ),
    ),
    BUNDLED_PAIR,
    PairSpec(
        "qwen3-0.6b-4b",
        "Qwen3 0.6B → 4B",
        ModelRef("Qwen/Qwen3-4B", "1cfa9a7208912126459214e8b04321603b3df60c"),
        _QWEN3_DRAFT,
        4_022_468_096,
        596_049_920,
        _QWEN3,
    ),
    PairSpec(
        "qwen3-0.6b-8b",
        "Qwen3 0.6B → 8B",
        ModelRef("Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218"),
        _QWEN3_DRAFT,
        8_190_735_360,
        596_049_920,
        _QWEN3,
    ),
    PairSpec(
        "llama-3-1b-8b",
        "Llama 3.2 1B → 3.1 8B",
        ModelRef("meta-llama/Llama-3.1-8B-Instruct", "0e9e39f249a16976918f6564b8830bc894c89659"),
        ModelRef("meta-llama/Llama-3.2-1B-Instruct", "9213176726f574b556790deb65791e0c5aa438b6"),
        8_030_261_248,
        1_235_814_400,
        "General chat in English and seven more languages. Llama 3.1 and 3.2 Community Licences: "
        "accept both on the models' pages, then log in with `hf auth login` or set HF_TOKEN.",
    ),
    PairSpec(
        "smollm2-135m-1.7b",
        "SmolLM2 135M → 1.7B",
        ModelRef("HuggingFaceTB/SmolLM2-1.7B-Instruct", "31b70e2e869a7173562077fd711b654946d38674"),
        ModelRef("HuggingFaceTB/SmolLM2-135M-Instruct", "12fd25f77366fa6b3b4b768ec3050bf629380bac"),
        1_711_376_384,
        134_515_008,
        "General chat in English, small enough for a laptop. Apache 2.0, no account needed.",
    ),
)
