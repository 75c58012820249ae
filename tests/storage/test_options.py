"""Storage options by the names of s3fs, and by those that pylance takes."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

import lance_df
from lance_df.storage.options import filesystem_options, s3_options


def test_names_of_lance_become_those_of_s3fs():
    options = {
        "aws_access_key_id": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "session_token": "token",
        "aws_region": "eu-west-1",
        "endpoint": "http://x",
        "allow_http": "true",
        "aws_skip_signature": "false",
    }
    assert s3_options(options) == {
        "key": "key",
        "secret": "secret",
        "token": "token",
        "endpoint_url": "http://x",
        "client_kwargs": {"region_name": "eu-west-1"},
        "anon": False,
    }


def test_names_of_s3fs_stay():
    options = {
        "key": "key",
        "endpoint_url": "http://x",
        "client_kwargs": {"region_name": "us-east-1", "verify": False},
        "config_kwargs": {},
        "anon": True,
    }
    assert s3_options(options) == options
    assert s3_options({**options, "region": "eu"})["client_kwargs"]["region_name"] == "us-east-1"


def test_other_schemes_are_left_alone():
    assert filesystem_options("memory", {"region": "x"}) == {"region": "x"}
    assert filesystem_options("gs", {"token": "anon"}) == {"token": "anon", "use_listings_cache": False}
    assert filesystem_options("s3", None) == {"use_listings_cache": False}


def test_one_set_of_options_for_both_libraries(bucket: str, s3_options: dict[str, Any]):
    options = {
        "aws_access_key_id": s3_options["key"],
        "aws_secret_access_key": s3_options["secret"],
        "aws_endpoint": s3_options["endpoint_url"],
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    uri = f"{bucket}/t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), uri, storage_options=options)
    lance.write_dataset(pa.table({"a": [2]}), uri, mode="append", storage_options=options)
    assert lance_df.dataset(uri, storage_options=options).to_table()["a"].to_pylist() == [1, 2]
