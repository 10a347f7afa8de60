"""What the panel "Your data" shows, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.format import count, plural, shorten
from storage import Counts
from ui.kit.panel import render
from ui.public.visitors import Visitor

WORD = "delete"  # what must be typed before everything goes
DONE, FAILED = "done", "failed"


def anything(counts: Counts) -> bool:
    return any((counts.comparisons, counts.deleted, counts.sweeps, counts.votes, counts.studies, counts.shares))


def amounts(counts: Counts, *, deleted: bool = False) -> str:
    """``12 comparisons with 24 runs, 1 sweep``; what there is none of is left out. ``deleted``: those that can be brought back too."""
    runs = f" with {plural(counts.runs, 'run')}" if counts.runs else ""
    parts = [f"{plural(counts.comparisons, 'comparison')}{runs}"]
    if deleted and counts.deleted:
        parts.append(plural(counts.deleted, "deleted comparison"))
    rest = ((counts.sweeps, "sweep"), (counts.votes, "vote"))
    parts += [plural(many, noun) for many, noun in rest if many]
    if counts.studies:
        parts.append("1 study" if counts.studies == 1 else f"{count(counts.studies)} studies")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One link that works. ``created``: ISO time."""

    kind: str
    id: str
    title: str
    created: str


@dataclass(frozen=True, slots=True)
class Account:
    """The panel. ``state``: of ``message``, done or failed; ``lasting``: the visitor is known beyond this page."""

    who: str
    counts: str = ""
    retention: str = ""
    movable: str = ""  # what the browser made before its visitor signed in
    consequence: str = ""  # of deleting everything
    shares: tuple[SharedRow, ...] = ()
    lasting: bool = False
    anything: bool = False
    message: str = ""
    state: str = ""

    def html(self) -> str:
        return render("tabs/account/panel.html.jinja", account=self, word=WORD)


NOBODY = Account("")  # until it was asked for


def account_of(
    visitor: Visitor, days: int | None, counts: Counts, shares: Sequence[SharedRow] = (), browser: Counts | None = None
) -> Account:
    """``browser``: what the browser made before its visitor signed in."""
    return Account(
        who=who(visitor),
        counts=f"Kept: {amounts(counts)}." if anything(counts) else "Nothing of yours is kept here.",
        retention=retention(days),
        movable=movable(browser),
        consequence=consequence(counts),
        shares=tuple(shares),
        lasting=visitor.lasting,
        anything=anything(counts),
    )


def signed_in(visitor: Visitor) -> bool:
    return (visitor.owner or "").startswith("account:")


def who(visitor: Visitor) -> str:
    if signed_in(visitor):
        return f"Signed in as {shorten(visitor.name, 80) or 'an account without a name'}."
    if visitor.lasting:
        return "This browser is known by a random number in a cookie; without that cookie you cannot get at what is yours any more."
    return (
        "Your browser keeps no cookie of this page, so what is yours is lost when you close it, and nothing can be downloaded; "
        "open the page in a tab of its own to keep it."
    )


def retention(days: int | None) -> str:
    time = (
        f"Everything is removed for good {plural(days, 'day')} after it was made."
        if days
        else "It is kept until you delete it."
    )
    return f"{time} You and whoever runs this page can read it; others only what you share."


def movable(browser: Counts | None) -> str:
    if browser is None or not anything(browser):
        return ""
    return f"Before you signed in, this browser made {amounts(browser, deleted=True)}."


def consequence(counts: Counts) -> str:
    """What deletion means, before it is done."""
    links = f" {plural(counts.shares, 'shared link')} will stop working." if counts.shares else ""
    return (
        f"This removes {amounts(counts, deleted=True)} for good: nobody can bring them back, and backups forget them with "
        f"time.{links} What is running now is kept when it ends: stop it first."
    )
