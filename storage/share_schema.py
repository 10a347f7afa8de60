"""The table of links to what is shared. Rules as in schema.py.

Only a hash of what is in the link is kept: whoever reads the database, or a copy of it, can open none. A link goes with what it shows.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from storage.columns import UtcTime
from storage.schema import Base, Comparison, Sweep
from storage.study_schema import Study

OBJECTS = ("comparison_id", "sweep_id", "study_id")


class Link(Base):
    """One object that whoever has the link may read: a comparison, a sweep or a study. One link an object."""

    __tablename__ = "shares"
    __table_args__ = (
        CheckConstraint(" + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name in OBJECTS) + " = 1"),
        Index(None, "owner", "created_at"),
        *(UniqueConstraint(name, name=f"uq_shares_{name}") for name in OBJECTS),
    )

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256, hexadecimal
    owner: Mapped[str] = mapped_column(String(64))  # that of the object
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    comparison_id: Mapped[str | None] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(Sweep.id, ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"))
