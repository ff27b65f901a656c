"""Small wheels: built by setuptools from C++, or put together file by file."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EXTENSION: Final = """\
#include <Python.h>
namespace planted {
__attribute__((noinline)) static void fall(int* volatile where) {
  *where = 1;  // line 4
  asm volatile("");
}
}  // namespace planted
static PyObject* fall(PyObject*, PyObject*) {
  planted::fall(reinterpret_cast<int*>(0x18));
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {
    {"fall", fall, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_ext", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__ext() { return PyModule_Create(&module); }
"""
FALLING_LINE: Final = 4
_SETUP: Final = """\
from setuptools import Extension, setup
extension = Extension("planted._ext", ["ext.cpp"], extra_compile_args=["-g", "-O1"])
setup(name="planted", version="1.0", packages=["planted"], ext_modules=[extension])
"""


def build_wheel(folder: Path, source: str = EXTENSION) -> Path:
    """A wheel of one extension module with debug information, as a publisher builds it."""
    (folder / "planted").mkdir(parents=True)
    (folder / "planted" / "__init__.py").touch()
    (folder / "ext.cpp").write_text(source, encoding="utf-8")
    (folder / "setup.py").write_text(_SETUP, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if "FLAGS" not in name}
    subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel"],
        cwd=folder, check=True, capture_output=True, env=environment,
    )  # fmt: skip
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


def pack_wheel(path: Path, contents: Mapping[str, bytes], record: str | None = None) -> Path:
    """A wheel with exactly these files, and a RECORD that fits if none is given."""
    rows = [f"{name},{recorded_hash(data)},{len(data)}\n" for name, data in contents.items()]
    text = "".join(rows) + "x-1.dist-info/RECORD,,\n" if record is None else record
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as output:
        for name, data in contents.items():
            output.writestr(name, data)
        output.writestr("x-1.dist-info/RECORD", text)
    return path


def recorded_hash(data: bytes) -> str:
    """As RECORD writes it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.decode().rstrip("=")


def compile_library(path: Path, *flags: str, build_id: str = "0xabcdef01") -> Path:
    """A shared library with debug information."""
    source = path.with_suffix(".c")
    source.write_text("int answer(int x) { return x * 42; }\n", encoding="utf-8")
    arguments = ["-shared", "-fPIC", f"-Wl,--build-id={build_id}", *flags]
    subprocess.run(["gcc", "-g", *arguments, "-o", str(path), str(source)], check=True)
    return path
