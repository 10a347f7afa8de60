"""SQL of a schema from sql/NAME.DIALECT.sql: statements that each end with ``;`` and a line's end. The files are frozen."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

_FOLDER = Path(__file__).parent / "sql"


def run_statements(connection: Connection, name: str) -> None:
    text = (_FOLDER / f"{name}.{connection.dialect.name}.sql").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    for statement in "\n".join(lines).split(";\n"):
        connection.exec_driver_sql(statement.rstrip(";"))
