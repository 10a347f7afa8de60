"""Command line: ``python -m evaluation run | resume | list | report | export | judge | delete | lm_eval``.

Exit status 2 for bad input, 1 where something failed, 130 if interrupted: then ``resume`` goes on.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from evaluation.arguments import parser
from storage import StorageError


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["lm_eval"]:
        from evaluation.harness.command import main as lm_eval

        return lm_eval(given[1:])
    options = parser().parse_args(given)
    try:
        return _command(options.command)(options)
    except ValueError as error:  # ModelError is one
        sys.stderr.write(f"{error}\n")
        return 2
    except StorageError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _command(name: str) -> Callable[[Namespace], int]:
    """Imported only when asked for: those that run models import libraries for seconds."""
    if name in ("run", "resume"):
        from evaluation.commands import work

        return {"run": work.run, "resume": work.resume}[name]
    from evaluation.commands import read

    return {
        "list": read.list_studies,
        "report": read.report,
        "export": read.export,
        "judge": read.judge,
        "delete": read.delete,
    }[name]


if __name__ == "__main__":
    sys.exit(main())
