"""Which comparisons, sweeps and studies a store has: all, those of one owner, or what one link shows; as conditions for SQL.

Every connection of a store carries its scope, and every statement that begins with an id or with none asks for it: what is not
in the scope is not there. Runs, steps, tokens and votes are reached through their comparison, tasks and results through
their study. Opens no transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import ColumnElement, Connection, Select, false, func, select, true
from sqlalchemy.orm import InstrumentedAttribute

from storage.schema import Comparison, Facet, Link, Shared, Study, StudyTask, Sweep

SCOPE = "mars_scope"  # execution option of every connection of a store
EVERYBODY = ""  # the owner of what was made by a store that has everything
OWNER_LENGTH = 64  # characters
Conditions = tuple[ColumnElement[bool], ...]
Table = type[Comparison | Sweep | Study]


@dataclass(frozen=True, slots=True)
class Everything:
    """Whatever is there. What is made belongs to everybody."""

    writable: ClassVar[bool] = True
    owner: ClassVar[str] = EVERYBODY
    votes: ClassVar[Conditions] = ()  # of the comparisons in the scope

    def of(self, _table: Table | type[Link | Facet]) -> Conditions:
        return ()


@dataclass(frozen=True, slots=True)
class Owned:
    """What belongs to ``owner``, and what is made from now on."""

    owner: str
    writable: ClassVar[bool] = True
    votes: ClassVar[Conditions] = ()

    def of(self, table: Table | type[Link | Facet]) -> Conditions:
        return (table.owner == self.owner,)


@dataclass(frozen=True, slots=True)
class Linked:
    """What one link shows, for as long as it is valid, and only to read. Who voted for what is not shared, nor are other links."""

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
                    made = func.jsonb_array_elements_text(StudyTask.comparison_ids)
                    each = made.table_valued("value").render_derived()
                tasks = select(each.c.value).select_from(StudyTask).join(each, true())
                return there, Comparison.id.in_(tasks.where(StudyTask.study_id.in_(self._shown(Link.study_id))))

    def _shown(self, column: InstrumentedAttribute[str | None]) -> Select[str | None]:
        """Nothing as soon as the link is gone."""
        return select(column).where(Link.token_hash == self.token_hash, column.is_not(None))


Scope = Everything | Owned | Linked


def scope_of(connection: Connection) -> Scope:
    """That of the store whose connection it is."""
    scope: Scope = connection.get_execution_options()[SCOPE]
    return scope


def owned_by(owner: str) -> Owned:
    """Raises ValueError for what cannot be an owner: nobody may be taken for everybody."""
    if not 1 <= len(owner) <= OWNER_LENGTH:
        raise ValueError(f"owner has {len(owner)} characters; it must have 1 to {OWNER_LENGTH}.")
    return Owned(owner)
