"""What the environment may say: defaults of a laptop and of a Space, and one sentence for what is no value."""

from __future__ import annotations

import pytest

from hosting.settings import Settings, json_log, read_settings

SPACE = {"SPACE_ID": "someone/mars"}


def test_a_laptop_is_private_and_local() -> None:
    assert read_settings({}) == Settings()
    assert (Settings().public, Settings().host, Settings().port) == (False, "127.0.0.1", 7860)


def test_a_space_is_public_and_writes_json() -> None:
    found = read_settings(SPACE)
    assert found.public and found.json_log and found.host == "0.0.0.0"  # the container's only address
    assert found.graphs and not found.zero_gpu and not found.sign_in


def test_zero_gpu_switches_graphs_off() -> None:
    found = read_settings(SPACE | {"SPACES_ZERO_GPU": "true"})
    assert found.zero_gpu and not found.graphs


def test_a_space_may_be_private_and_a_laptop_public() -> None:
    assert not read_settings(SPACE | {"MARS_PUBLIC": "0"}).public
    assert read_settings({"MARS_PUBLIC": "1"}).public


def test_a_proxy_is_declared_or_is_part_of_where_the_page_stands() -> None:
    assert not read_settings({"MARS_PUBLIC": "on"}).proxy and read_settings({"MARS_PROXY": "on"}).proxy
    assert read_settings(SPACE).proxy and read_settings({"MARS_ROOT_PATH": "/mars"}).proxy
    assert not read_settings({"MARS_ROOT_PATH": "/mars", "MARS_PROXY": "off"}).proxy


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), (SPACE, True), ({"MARS_JSON_LOG": "on"}, True), (SPACE | {"MARS_JSON_LOG": "off"}, False),
     ({"MARS_JSON_LOG": "perhaps"}, True)],
)  # fmt: skip
def test_the_form_of_the_log_is_known_even_where_the_rest_is_no_value(
    environment: dict[str, str], expected: bool
) -> None:
    assert json_log(environment | {"PORT": "x"}) is expected


def test_sign_in_needs_a_space_with_oauth() -> None:
    oauth = {"OAUTH_CLIENT_ID": "x", "OAUTH_CLIENT_SECRET": "y"}  # without the secret anybody could sign a session
    assert read_settings(SPACE | oauth).sign_in
    assert not read_settings(oauth).sign_in
    assert not read_settings(SPACE | oauth | {"OAUTH_CLIENT_SECRET": ""}).sign_in


def test_what_is_said_is_taken() -> None:
    found = read_settings(
        {
            "HOST": "::1", "PORT": "80", "MARS_ROOT_PATH": "/lab/mars/", "MARS_PAIRS": "bundled, smollm2-135m-1.7b,",
            "MARS_RETENTION_DAYS": "30", "MARS_BACKUP_REPO": "someone/runs", "MARS_BACKUP_MINUTES": "5", "HF_TOKEN": "hf_a",
            "MARS_METRICS": "on", "MARS_EXACT": "off", "MARS_DATABASE_URL": "", "MARS_LIMITS": "k=4",
        }
    )  # fmt: skip
    assert (found.host, found.port, found.root_path) == ("::1", 80, "/lab/mars")
    assert found.pairs == ("bundled", "smollm2-135m-1.7b") and found.retention_days == 30
    assert (found.backup_repo, found.backup_minutes, found.backup_token) == ("someone/runs", 5, "hf_a")
    assert found.metrics and found.exact == "off" and found.database is None and found.limits == "k=4"


def test_a_token_of_backups_comes_before_the_general_one() -> None:
    assert read_settings({"HF_TOKEN": "hf_a", "MARS_BACKUP_TOKEN": "hf_b"}).backup_token == "hf_b"


def test_no_secret_is_shown() -> None:
    found = read_settings({"HF_TOKEN": "hf_secret", "MARS_DATABASE_URL": "postgresql://me:secret@host/db"})
    assert "secret" not in repr(found) and "secret" not in str(found)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORT", "0", "whole number from 1 to 65535"),
        ("PORT", "٣", "whole number from 1 to 65535"),
        ("MARS_PUBLIC", "perhaps", "on, off or auto"),
        ("MARS_RETENTION_DAYS", "-1", "whole number from 0 to 36500"),
        ("MARS_BACKUP_MINUTES", "0", "whole number from 1 to 10080"),
        ("MARS_ROOT_PATH", "lab", "a path such as /mars"),
        ("MARS_ROOT_PATH", "/a b", "a path such as /mars"),
        ("MARS_METRICS", "yes", "on, off or auto"),
    ],
)
def test_what_is_no_value_gets_a_sentence(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as told:
        read_settings({name: value})
    assert str(told.value).startswith(f"{name} is {value!r}; it must be")
