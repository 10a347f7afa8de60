"""How a text is cut into words: which scripts are written without spaces. Standard library only."""

from __future__ import annotations

import re
import unicodedata

# Han; kana; Thai, Lao, Myanmar and Khmer. Hangul is written with spaces between words.
_HAN = r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_SOUTHEAST = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_HAN}{_KANA}{_SOUTHEAST}]|[^\W_{_HAN}{_KANA}{_SOUTHEAST}]+")


def words(text: str) -> list[str]:
    """Lower-case words; each letter of a script without spaces is a word. On ASCII what rouge-score's own tokenizer gives."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def bleu_tokenizer(text: str) -> str:
    """sacrebleu's tokenizer for the script of ``text``: letters for Japanese and Southeast Asian scripts, ``zh`` for Chinese.

    A script counts from a tenth of the letters on. Korean has spaces and takes 13a as all others; the tokenizers for
    Japanese and Korean words need dictionaries, and a score must not depend on whether they are installed.
    """
    letters = sum(map(str.isalpha, text)) or 1
    if len(re.findall(f"[{_KANA}{_SOUTHEAST}]", text)) >= letters / 10:
        return "char"
    return "zh" if len(re.findall(f"[{_HAN}]", text)) >= letters / 10 else "13a"
