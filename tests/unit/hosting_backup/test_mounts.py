"""SQLite on a mounted bucket is refused; on a disk, whatever it is called, it is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hosting.backup import refuse_mounted

DISK = SimpleNamespace(mountpoint="/", fstype="ext4", device="/dev/vda")


def mount(point: Path, kind: str, source: str) -> SimpleNamespace:
    return SimpleNamespace(mountpoint=str(point), fstype=kind, device=source)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("fuse.hf-mount", "owner/name"),
        ("fuse", "hf-mount"),
        ("fuse.s3fs", "s3fs"),
        ("nfs", "127.0.0.1:/"),
        ("nfs4", "localhost:/"),
        ("nfs4", "[::1]:/"),
    ],
)
def test_a_mounted_bucket_is_refused(tmp_path: Path, kind: str, source: str) -> None:
    table = [DISK, mount(tmp_path, kind, source)]
    with pytest.raises(ValueError, match="mounted bucket"):
        refuse_mounted(tmp_path / "deeper" / "runs.db", table)
    refuse_mounted(Path("/elsewhere/runs.db"), table)


@pytest.mark.parametrize(
    ("kind", "source"),
    [("fuse.fuse-overlayfs", "overlay"), ("fuseblk", "/dev/sda1"), ("nfs4", "server:/home"), ("overlay", "overlay")],
)
def test_a_disk_is_not_refused(tmp_path: Path, kind: str, source: str) -> None:
    refuse_mounted(tmp_path / "runs.db", [DISK, mount(tmp_path, kind, source)])


def test_the_mount_on_top_counts_and_links_are_followed(tmp_path: Path) -> None:
    bucket = tmp_path / "a bucket"
    bucket.mkdir()
    link = tmp_path / "link"
    link.symlink_to(bucket)
    table = [mount(bucket, "fuse.hf-mount", "owner/name"), DISK]
    with pytest.raises(ValueError, match="of kind fuse"):
        refuse_mounted(link / "runs.db", table)
    refuse_mounted(bucket / "runs.db", [*table, mount(bucket, "ext4", "/dev/vdb")])


def test_this_system_can_be_read(tmp_path: Path) -> None:
    refuse_mounted(tmp_path / "runs.db")
    refuse_mounted(tmp_path / "runs.db", [])
