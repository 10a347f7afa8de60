"""Runs the migrations on the connection, and in the transaction, provided by storage.database."""

from __future__ import annotations

from alembic import context

from storage.schema import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
