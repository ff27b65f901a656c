"""The plugin is found as vLLM finds plugins, and is Python that compiles."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from vllm_forensics.capture.foreign_build.vllm_plugin import write_plugin


def test_the_plugin_is_among_the_entry_points_that_vllm_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plugin(tmp_path, "kernels", ("copy_blocks",))
    write_plugin(tmp_path, "kernels", ("copy_blocks", "reshape_and_cache"))
    monkeypatch.syspath_prepend(tmp_path)

    [found] = (one for one in entry_points(group="vllm.general_plugins") if "kernels" in one.name)

    text = (tmp_path / "kernels_plugin.py").read_text()
    compile(text, "kernels_plugin.py", "exec")
    assert found.value == "kernels_plugin:take_over"
    assert "OPERATORS = ('copy_blocks', 'reshape_and_cache')" in text
    assert "{{" not in text
