"""What the tokens of a text can be coloured by, and the scale of each: fixed ends, so that a colour means the same in every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mars_core.types import Outcome
from ui.kit.palette import DECISIVE, LANES, NEAR_TIE, OUTCOME_STYLES

MOST = 0.55  # of a hue over the ground: text on it stays readable, light and dark


@dataclass(frozen=True, slots=True)
class Quantity:
    """``field`` is one of ``token_view.FIELDS``. ``pale`` is the end of the scale without colour, ``strong`` the other."""

    key: str
    title: str
    field: str = ""
    pale: float = 0.0
    strong: float = 1.0
    open: float | None = None  # the end that stands for everything beyond it too
    logarithmic: bool = False
    most: str = ""  # which value of a word decides


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("outcome", "outcome"),
    Quantity("r", "r, margin ratio", "r", most="largest"),  # parts at θ; see the hues
    Quantity("gap", "gap, z₁ − z₂", "gap", 8.0, 0.0, 8.0, most="smallest"),
    Quantity("p", "p, target", "p", 1.0, 0.0, most="smallest"),
    Quantity("q", "q, drafter", "q", 1.0, 0.0, most="smallest"),
    Quantity("rank", "rank in p", "rank", 1.0, 100.0, 100.0, logarithmic=True, most="largest"),
    Quantity("entropy", "entropy of p", "entropy", 0.0, 4.0, 4.0, most="largest"),
    Quantity("tv", "TV, shift", "TV", 0.0, 1.0, most="largest"),
    Quantity("whatif", "kept or rejected at θ"),
)
HUES: Mapping[str, str] = MappingProxyType(  # on either ground
    {
        "near": NEAR_TIE[-1],  # r above θ
        "sure": DECISIVE[1],  # r below θ
        "amount": LANES[2],
        "kept": LANES[2],
        "refused": OUTCOME_STYLES[Outcome.REJECTED].light,
    }
)
