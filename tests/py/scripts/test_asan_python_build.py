"""The script that builds a CPython with AddressSanitizer: refusals, resuming, proving.

Most tests give it a source archive whose configure and make take no time, and whose interpreter is
the one at hand, with AddressSanitizer preloaded. Only the slow one builds the real thing.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.asan

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "asan_python_build.sh"
CONFIGURE = """\
#!/bin/sh
echo configure >>"$CALLS"
if [ "$FAILING" = configure ]; then echo 'no compiler here'; exit 1; fi
for option; do case "$option" in --prefix=*) echo "PREFIX = ${option#*=}" >settings;; esac; done
"""
MAKEFILE = """\
include settings
all:
	echo build >>"$(CALLS)"
	if test "$(FAILING)" = build; then echo 'a compiler error'; exit 1; fi
	if test "$(FAILING)" = hang; then echo $$$$ >"$(CALLS).pid"; exec sleep 1000; fi
install:
	echo install >>"$(CALLS)"
	mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	cp python3 "$(DESTDIR)$(PREFIX)/bin/python3"
"""
INTERPRETER = """\
#!/bin/sh
export LD_PRELOAD="{libraries}" PYTHONMALLOC="${{ALLOCATOR:-malloc}}"
exec "{python}" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    out: str
    err: str


@dataclass(frozen=True, kw_only=True)
class Builder:
    folder: Path
    """With a space in its name."""
    tarball: Path

    @property
    def prefix(self) -> Path:
        return self.folder / "python"

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def environment(self, **changes: str) -> dict[str, str]:
        plain = {"PATH": os.environ["PATH"], "CALLS": str(self.folder / "calls"), "FAILING": ""}
        return plain | {"TMPDIR": str(self.folder.parent)} | changes

    def command(self, *options: str | Path) -> list[str]:
        return ["bash", str(SCRIPT), "--prefix", str(self.prefix), *map(str, options)]

    def run(self, *options: str | Path, **changes: str) -> Ended:
        done = subprocess.run(
            self.command(*options),
            capture_output=True, text=True, check=False, timeout=300, cwd=self.folder,
            env=self.environment(**changes), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Ended(status=done.returncode, out=done.stdout, err=done.stderr)

    def build(self, **changes: str) -> Ended:
        return self.run("--tarball", self.tarball, **changes)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    folder = tmp_path / "with a space"
    source = folder / "Python-3.99.1"
    source.mkdir(parents=True)
    asan, cxx = (library(name) for name in ("libasan.so", "libstdc++.so"))
    interpreter = INTERPRETER.format(libraries=f"{asan} {cxx}", python=sys.executable)
    for name, text in (
        ("configure", CONFIGURE),
        ("Makefile", MAKEFILE),
        ("python3", interpreter),
    ):
        (source / name).write_text(text, encoding="utf-8")
        (source / name).chmod(0o755)
    tarball = folder / "Python 3.99.1.tar.xz"
    with tarfile.open(tarball, "w:xz") as output:
        output.add(source, source.name)
    shutil.rmtree(source)
    return Builder(folder=folder, tarball=tarball)


def library(name: str) -> str:
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return str(Path(found.stdout.strip()).resolve())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "say what to build"),
        (("--version", "3.12.3", "--distribution"), "one source is enough"),
        (("--version", "latest"), "not like 3.12.3"),
        (("--version", "3.99.1"), "--sha256"),
        (("--version",), "needs a value"),
        (("--tarball", "missing.tar"), "no file"),
        (("--distribution=-x",), "no package's name"),
        (("--distribution", "--jobs", "0"), "--jobs 0"),
        (("--distribution", "--jobs", "many"), "--jobs many"),
        (("--version", "3.12.3", "--sha256", "abc"), "64 hexadecimal digits"),
        (("--frobnicate",), "no option --frobnicate"),
    ],
)
def test_bad_usage_ends_with_2_and_makes_nothing(
    builder: Builder, options: tuple[str, ...], said: str
) -> None:
    before = sorted(builder.folder.iterdir())

    ended = builder.run(*options)

    assert ended.status == 2
    assert said in ended.err
    assert sorted(builder.folder.iterdir()) == before


def test_help_names_every_option(builder: Builder) -> None:
    ended = builder.run("--help")

    assert ended.status == 0
    options = ("version", "tarball", "distribution", "sha256", "prefix", "jobs", "keep", "help")
    assert all(f"--{option}" in ended.out for option in options)


def test_a_build_is_proved_and_a_second_run_says_that_it_is_there(builder: Builder) -> None:
    first = builder.build()
    second = builder.build()

    assert first.status == 0, first.err
    assert "AddressSanitizer: heap-use-after-free" in first.out
    assert "100-byte region" in first.out
    assert "may throw and catch" in first.out
    assert len(first.out.splitlines()) < 20
    assert second.status == 0
    assert "is there already" in second.out
    assert builder.calls == ["configure", "build", "install"]
    assert (builder.prefix / "build.log").read_text(encoding="utf-8")
    assert not builder.prefix.with_name("python.build").exists()
    assert [path.name for path in builder.folder.parent.iterdir()] == [builder.folder.name]


def test_an_interpreter_that_hides_a_use_after_free_does_not_pass(builder: Builder) -> None:
    ended = builder.build(ALLOCATOR="pymalloc")

    assert ended.status == 1
    assert "was not found" in ended.err
    assert not (builder.prefix / "built-from").exists()


@pytest.mark.parametrize(
    ("failing", "said", "again"),
    [
        ("configure", "no compiler here", ["configure", "configure", "build", "install"]),
        ("build", "a compiler error", ["configure", "build", "build", "install"]),
    ],
)
def test_a_failure_shows_the_end_of_the_log_and_a_second_run_goes_on_there(
    builder: Builder, failing: str, said: str, again: list[str]
) -> None:
    failed = builder.build(FAILING=failing)
    whole = builder.prefix.exists()
    resumed = builder.build()

    assert failed.status == 1
    assert not whole
    assert said in failed.err
    assert str(builder.folder / "python.build" / "log") in failed.err
    assert resumed.status == 0, resumed.err
    assert "unpack     done before" in resumed.out
    assert builder.calls == again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_was_ended_goes_on(builder: Builder, number: signal.Signals) -> None:
    written = builder.folder / "calls.pid"
    with subprocess.Popen(
        builder.command("--tarball", builder.tarball),
        cwd=builder.folder, env=builder.environment(FAILING="hang"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        while not (written.exists() and written.read_text(encoding="utf-8").strip()):
            assert child.poll() is None
            time.sleep(0.02)
        compiler = int(written.read_text(encoding="utf-8"))
        child.send_signal(number)
        status = child.wait(timeout=60)
    meanwhile = builder.build()
    if number is signal.SIGKILL:
        os.kill(compiler, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while (resumed := builder.build()).status == 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "another build is at work" in meanwhile.err
    else:
        resumed = meanwhile

    assert status in {128 + number, -number}
    assert resumed.status == 0, resumed.err
    assert builder.calls == ["configure", "build", "build", "install"]


def test_an_archive_with_another_checksum_is_not_unpacked(builder: Builder) -> None:
    ended = builder.run("--tarball", builder.tarball, "--sha256", "0" * 64)

    assert ended.status == 1
    assert sha256(builder.tarball) in ended.err
    assert builder.calls == []
    assert not (builder.folder / "python.build" / "source").exists()


def test_what_is_no_source_of_python_is_said_to_be_none(builder: Builder) -> None:
    with tarfile.open(builder.tarball, "w:xz") as output:
        output.add(SCRIPT, "other/script.sh")

    ended = builder.build()

    assert ended.status == 1
    assert "holds no configure" in ended.err


def test_another_source_starts_anew(builder: Builder) -> None:
    builder.build(FAILING="build")
    other = builder.folder / "other.tar"
    shutil.copy(builder.tarball, other)
    with other.open("ab") as output:
        output.write(bytes(4))  # padding, which xz permits

    ended = builder.run("--tarball", other)

    assert "starting anew" in ended.out
    assert ended.status == 0, ended.err
    assert builder.calls == ["configure", "build", "configure", "build", "install"]


def test_a_prefix_that_is_there_is_left_alone(builder: Builder) -> None:
    builder.prefix.mkdir()
    (builder.prefix / "mine").write_text("precious", encoding="utf-8")

    ended = builder.build()

    assert ended.status == 2
    assert "is there already" in ended.err
    assert [path.name for path in builder.prefix.iterdir()] == ["mine"]
    assert not builder.prefix.with_name("python.build").exists()


@pytest.mark.parametrize("honest", [True, False])
def test_a_release_is_fetched_from_python_org_and_checked(builder: Builder, honest: bool) -> None:
    tools = builder.folder / "tools"
    tools.mkdir()
    (tools / "curl").write_text(
        '#!/bin/sh\nfor word; do url="$word"; [ "$last" != --output ] || target="$word"; '
        'last="$word"; done\necho "$url" >"$CALLS.url"\ncp "$SERVED" "$target"\n',
        encoding="utf-8",
    )
    (tools / "curl").chmod(0o755)
    options = ["--version", "3.12.3"]
    options += ["--sha256", sha256(builder.tarball)] if honest else []

    ended = builder.run(*options, PATH=f"{tools}:{os.environ['PATH']}", SERVED=str(builder.tarball))

    url = (builder.folder / "calls.url").read_text(encoding="utf-8").strip()
    assert url == "https://www.python.org/ftp/python/3.12.3/Python-3.12.3.tar.xz"
    assert ended.status == (0 if honest else 1), ended.err
    assert builder.calls == (["configure", "build", "install"] if honest else [])


@pytest.mark.slow
def test_the_distributions_own_source_becomes_a_python_that_finds_a_use_after_free(
    builder: Builder,
) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("needs a distribution with source packages and apt-get")
    lists = sorted(Path("/var/lib/apt/lists").glob("*"))

    done = subprocess.run(
        builder.command("--distribution"),
        capture_output=True, text=True, check=False, timeout=3600, cwd=builder.folder,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "AddressSanitizer: heap-use-after-free" in done.stdout
    assert sorted(Path("/var/lib/apt/lists").glob("*")) == lists
    python = builder.prefix / "bin" / "python3"
    script = "import ctypes; p = ctypes.create_string_buffer(100); ctypes.memset(p, 1, 101)"
    ended = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=False, timeout=120,
        env={"ASAN_OPTIONS": "detect_leaks=0", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert "AddressSanitizer: heap-buffer-overflow" in ended.stderr
