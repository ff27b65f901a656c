"""Paths of Python's files as a sentence shows them."""

import pytest

from vllm_forensics.model.python_source import in_package


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v/lib/python3.12/site-packages/kit/core.py", "kit/core.py"),
        ("/usr/lib/python3/dist-packages/kit/core.py", "kit/core.py"),
        ("/usr/lib/python3.11/multiprocessing/spawn.py", "multiprocessing/spawn.py"),
        (r"C:\Python312\Lib\multiprocessing\spawn.py", r"multiprocessing\spawn.py"),
        ("/home/me/kit/core.py", "/home/me/kit/core.py"),
        ("train.py", "train.py"),
    ],
)
def test_a_file_is_shown_from_its_package_on(path: str, shown: str) -> None:
    assert in_package(path) == shown
