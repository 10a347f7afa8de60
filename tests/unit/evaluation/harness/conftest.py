"""lm-eval's model ``hf`` and ours on the same checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tests.checkpoints import SPECIAL
from tests.pairs import tiny_pair

HERE = {"device": "cpu", "dtype": "float32"}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[answer]{% endif %}"
)
Answers = Callable[..., list[str]]


def request(context: str, *, doc: int = 0, repeats: int = 1, **generation: Any) -> Any:
    """What lm-eval, which takes a second to import, asks of a model for one document."""
    from lm_eval.api.instance import Instance

    arguments = (context, {"max_gen_toks": 24, **generation})
    return Instance("generate_until", {}, arguments, 0, metadata=("a task", doc, repeats))


def generate(model: Any, *contexts: str, **generation: Any) -> list[str]:
    requests = [
        request(context, doc=doc, **copy.deepcopy(generation))
        for doc, context in enumerate(contexts)
    ]
    return list(model.generate_until(requests, disable_tqdm=True))


def models(target: Path, drafter: Path | str) -> dict[str, Any]:
    """``hf`` and ours without drafts and with strict ones, which must give the same answers."""
    from lm_eval.models.huggingface import HFLM

    from evaluation.harness.model import MarsLM

    ours: Mapping[str, str] = {"target": str(target), "drafter": str(drafter), **HERE}
    return {
        "hf": HFLM(pretrained=str(target), batch_size=1, **HERE),
        "none": MarsLM(rule="none", **ours),
        "strict": MarsLM(rule="strict", **ours),
    }


@pytest.fixture(scope="package")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Random models whose tokenizer puts no token before a text, and has no chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_pair(folder)
    return models(folder / "target", folder / "draft")


@pytest.fixture(scope="package")
def with_bos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same random models with a tokenizer that begins every text, and a chat template that does
    so too."""
    folder = tmp_path_factory.mktemp("with_bos")
    tiny_pair(folder)
    for name in ("target", "draft"):
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / name)
        bos = str(tokenizer.bos_token)
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, SPECIAL.index(bos))]
        )
        tokenizer.chat_template = TEMPLATE
        tokenizer.save_pretrained(folder / name)
    return models(folder / "target", folder / "draft")
