"""The comparisons, sweeps and studies visible to a store: all, those of one owner, or what one link shows; as SQL conditions.

Every connection of a store has its scope, and every statement on these tables uses it: objects outside the scope do not exist. Runs,
steps, tokens and votes are read through their comparison, tasks and results through their study.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import ColumnElement, Connection, Select, false, func, select, true
from sqlalchemy.orm import InstrumentedAttribute

from storage.schema import Comparison, Facet, Link, Shared, Study, StudyTask, Sweep

SCOPE = "mars_scope"  # execution option of every connection of a store
EVERYBODY = ""  # the owner of objects created by an unrestricted store
OWNER_LENGTH = 64  # characters
Conditions = tuple[ColumnElement[bool], ...]
Table = type[Comparison | Sweep | Study]


@dataclass(frozen=True, slots=True)
class Everything:
    """All objects. New ones belong to everybody."""

    writable: ClassVar[bool] = True
    owner: ClassVar[str] = EVERYBODY
    votes: ClassVar[Conditions] = ()  # of the comparisons in the scope

    def of(self, _table: Table | type[Link | Facet]) -> Conditions:
        return ()


@dataclass(frozen=True, slots=True)
class Owned:
    """The objects of ``owner``, including new ones."""

    owner: str
    writable: ClassVar[bool] = True
    votes: ClassVar[Conditions] = ()

    def of(self, table: Table | type[Link | Facet]) -> Conditions:
        return (table.owner == self.owner,)


@dataclass(frozen=True, slots=True)
class Linked:
    """What one link shows, read-only and as long as it is valid, without votes and other links."""

    token_hash: str
    kind: Shared
    dialect: str
    writable: ClassVar[bool] = False
    owner: ClassVar[str] = EVERYBODY
    votes: ClassVar[Conditions] = (false(),)

    def of(self, table: Table | type[Link | Facet]) -> Conditions:
        if table is Sweep:
            return (Sweep.id.in_(self._shown(Link.sweep_id)),)
        if table is Study:
            return (Study.id.in_(self._shown(Link.study_id)),)
        return self._comparisons() if table is Comparison else (false(),)

    def _comparisons(self) -> Conditions:
        there = Comparison.deleted_at.is_(None)
        match self.kind:
            case Shared.COMPARISON:
                return there, Comparison.id.in_(self._shown(Link.comparison_id))
            case Shared.SWEEP:
                return there, Comparison.sweep_id.in_(self._shown(Link.sweep_id))
            case Shared.STUDY:
                each = func.json_each(StudyTask.comparison_ids).table_valued("value")
                if self.dialect != "sqlite":
                    ids = func.jsonb_array_elements_text(StudyTask.comparison_ids)
                    each = ids.table_valued("value").render_derived()
                tasks = select(each.c.value).select_from(StudyTask).join(each, true())
                return there, Comparison.id.in_(tasks.where(StudyTask.study_id.in_(self._shown(Link.study_id))))

    def _shown(self, column: InstrumentedAttribute[str | None]) -> Select[str | None]:
        """The shown id; no row after the link is removed."""
        return select(column).where(Link.token_hash == self.token_hash, column.is_not(None))


Scope = Everything | Owned | Linked


def scope_of(connection: Connection) -> Scope:
    """The scope of the store of a connection."""
    scope: Scope = connection.get_execution_options()[SCOPE]
    return scope


def owned_by(owner: str) -> Owned:
    """Raises ValueError for an invalid owner; the empty owner is EVERYBODY."""
    if not 1 <= len(owner) <= OWNER_LENGTH:
        raise ValueError(f"owner has {len(owner)} characters; it must have 1 to {OWNER_LENGTH}.")
    return Owned(owner)
