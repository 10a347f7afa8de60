"""A study over two hosts with one PostgreSQL: network namespaces, one of which is cut off and comes
back.

The database is in a namespace as well: an interface that changes in this machine's own would end
the requests of every Chromium here.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import func, select

from mars_playground.__main__ import main
from storage import RunStore
from storage.schema import RunRow
from tests.postgres import cluster
from tests.serving import ROOT

DATABASE, HOSTS, PORT, TASKS = "mars-0", (1, 2), 54329, 12
PATIENCE_S = 400.0


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command on a host, which reaches the database at 10.77.N.1. Needs the right to make
    network namespaces."""
    made: list[str] = []
    try:
        for name in (DATABASE, *(f"mars-{number}" for number in HOSTS)):
            ip("netns", "add", name)
            made.append(name)
        for number in HOSTS:
            link, host = f"mars{number}", f"mars-{number}"
            ip(
                "-n",
                DATABASE,
                "link",
                "add",
                link,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                host,
            )
            for where, device, address in (
                (DATABASE, link, f"10.77.{number}.1/24"),
                (host, "eth0", f"10.77.{number}.2/24"),
            ):
                ip("-n", where, "address", "add", address, "dev", device)
                ip("-n", where, "link", "set", device, "up")
    except (OSError, subprocess.CalledProcessError) as error:
        for name in made:
            ip("netns", "delete", name)
        pytest.skip(
            f"network namespaces cannot be made here: {getattr(error, 'stderr', '') or error}"
        )
    started: list[subprocess.Popen[str]] = []

    def start(number: int, *arguments: str) -> subprocess.Popen[str]:
        command = [
            "ip",
            "netns",
            "exec",
            f"mars-{number}",
            sys.executable,
            "-m",
            "mars_playground",
            "eval",
            *arguments,
        ]
        url = f"postgresql://mars:secret@10.77.{number}.1:{PORT}/postgres"
        process = subprocess.Popen(
            [*command, "--db", url],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for name in made:
        ip("netns", "delete", name)


def test_a_host_that_is_cut_off_and_comes_back_loses_and_repeats_nothing(
    hosts: Callable[..., subprocess.Popen[str]],
) -> None:
    plan = (
        "--suite",
        "demo_arithmetic",
        "--limit",
        str(TASKS),
        "--rules",
        "strict,mars",
        "--no-placebos",
        "--max-new-tokens",
        "96",
    )
    with cluster("10.77.0.0/16", PORT, ("ip", "netns", "exec", DATABASE)) as folder:
        url = f"postgresql://mars:secret@/postgres?host={folder}&port={PORT}"
        assert main(["eval", "run", *plan, "--plan-only", "--db", url]) == 0
        with RunStore(url) as store:
            (study,) = [head.id for head in store.studies()]

            def done() -> int:
                return len(store.results(study))

            working = [
                hosts(number, "resume", study, "--threads", "1", "--quiet") for number in HOSTS
            ]
            _until(lambda: done() >= 3 and len(store.study_progress(study).workers) == 2, working)
            ip("-n", DATABASE, "link", "set", "mars2", "down")
            wanted = min(done() + 5, 2 * TASKS)
            _until(lambda: done() >= wanted, working)
            ip("-n", DATABASE, "link", "set", "mars2", "up")
            ended = [process.communicate(timeout=PATIENCE_S)[0] for process in working]
            results = store.results(study)
            assert sorted((result.task, result.lane) for result in results) == [
                (task, lane) for task in range(TASKS) for lane in range(2)
            ], ended
            run_ids = [run_id for result in results for run_id in result.run_ids]
            assert len(set(run_ids)) == len(run_ids) == 2 * TASKS
            with store.read() as connection:
                assert (
                    connection.execute(select(func.count()).select_from(RunRow)).scalar_one()
                    == 2 * TASKS
                )
            assert working[0].returncode == 0, ended


def _until(reached: Callable[[], bool], working: list[subprocess.Popen[str]]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < ends and any(process.poll() is None for process in working)
        time.sleep(0.2)
