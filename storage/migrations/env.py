"""Runs the migrations on the connection, and in the transaction, that storage.database hands over. Reads no files."""

from __future__ import annotations

from alembic import context

from storage.schema import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
