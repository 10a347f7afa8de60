"""A class of settings: a dataclass whose fields have a kind, by which they are read and checked."""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import Any, TypeVar

from mars_core.settings.kind import Flag, SettingKind

T = TypeVar("T")
_KIND = "kind"  # of the metadata of a field


def setting(default: Any, kind: SettingKind) -> Any:
    """Declare a field of a class of settings."""
    return field(default=default, metadata={_KIND: replace(kind, default=default)})


def kinds(of: type[Any]) -> dict[str, SettingKind]:
    """Return the kinds of the settings of a class, by name."""
    return {each.name: each.metadata[_KIND] for each in fields(of) if _KIND in each.metadata}


def checked(values: Any) -> None:
    """Read every setting of a new value of such a class; None is the default. Raises ValueError."""
    for name, kind in kinds(type(values)).items():
        value = getattr(values, name)
        value = kind.default if value is None else value
        if value is not None:
            value = kind.read(value, name)
        object.__setattr__(values, name, value)


def chosen(of: type[T], options: object, *names: str) -> T:
    """Return the settings that attributes with their names hold, by default all; others have their
    defaults. Raises ValueError."""
    return of(**{name: getattr(options, name, None) for name in names or kinds(of)})


def given(values: Any) -> dict[str, Any]:
    """Return what is not the default, by name."""
    return {
        name: value
        for name, kind in kinds(type(values)).items()
        if (value := getattr(values, name)) != kind.default
    }


def options(of: type[Any], *names: str) -> dict[str, dict[str, Any]]:
    """Return the options of the command line with their keywords, by default of all settings."""
    known, table = kinds(of), dict[str, dict[str, Any]]()
    for name in names or known:
        kind, keywords = known[name], known[name].keywords()
        more = "; may be repeated" if keywords.get("action") == "append" else ""
        if kind.default not in (None, "", ()) and not isinstance(kind, Flag):
            more += f" (default {kind.text(kind.default)})"
        negation = "do not " if isinstance(kind, Flag) and kind.default else ""
        help_ = f"{negation}{kind.help}{more}".replace("%", "%%")
        table[kind.flag(name)] = {"dest": name, "help": help_} | keywords
    return table
