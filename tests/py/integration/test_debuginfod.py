"""Debug information from a debuginfod server: a real one, and servers that mean no good."""

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.py.integration.crashes import leave_core
from tests.py.integration.tool import COMMAND, Answer, Json, forensics

from vllm_forensics.capture.debuginfod import Debuginfod, FetchedKind, FetchLimits
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.modules import parse_module

pytestmark = [pytest.mark.gdb, pytest.mark.xdist_group("debuginfod")]

SOURCE = """
namespace cache {
struct Block { int tokens[20]; int count; };
[[gnu::noinline]] int read_block(Block* volatile block) {
  return block->count;  // falls
}
}
int main() { return cache::read_block(nullptr) + 1; }
"""
FALLING_LINE = 5


@dataclass(frozen=True, kw_only=True)
class Crashed:
    core: Path
    program: Path
    """Stripped, as it crashed."""
    published: Path
    """A folder with what a distribution's server has of it: the debug information, the program."""
    build_id: str


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    folder = tmp_path_factory.mktemp("crashed")
    program, published = folder / "serve", folder / "published"
    published.mkdir()
    (folder / "serve.cpp").write_text(SOURCE)
    subprocess.run(
        ["g++", "-g", "-O1", "-Wl,--build-id", "-o", program, folder / "serve.cpp"], check=True
    )
    subprocess.run(["objcopy", "--only-keep-debug", program, published / "serve.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    shutil.copy(program, published / "serve")
    build_id = parse_module(memoryview(program.read_bytes())).build_id
    assert build_id is not None
    core = leave_core([str(program)], folder / "run")
    return Crashed(core=core, program=program, published=published, build_id=build_id)


def explained(crashed: Crashed, cache: Path, *options: str | Path, servers: str = "") -> Answer:
    environment = os.environ | {
        "XDG_CACHE_HOME": str(cache),
        "DEBUGINFOD_URLS": servers,
        "no_proxy": "*",
    }
    return forensics(
        *("core", "--format", "json", "--no-store", *options, crashed.core),
        environment=environment,
    )


def module_of(crash: Json, crashed: Crashed) -> Json:
    [module] = [entry for entry in crash["modules"] if entry["path"] == str(crashed.program)]
    assert isinstance(module, dict)
    return module


@contextmanager
def debuginfod(folder: Path, scratch: Path) -> Iterator[str]:
    """elfutils' own server over a folder, once it has read it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["debuginfod", "-d", ":memory:", "-p", str(port), "-F", str(folder)]
    environment = os.environ | {"HOME": str(scratch), "DEBUGINFOD_URLS": ""}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}/metrics", b'scanned_files_total{source="file"}')
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait_for(url: str, text: bytes) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(300):
        try:
            with opener.open(url, timeout=5) as answer:
                if text in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail(f"{url} never said {text!r}")


Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True, kw_only=True)
class Stranger:
    url: str
    asked: list[str]


@contextmanager
def stranger(reply: Reply) -> Iterator[Stranger]:
    """A server that speaks debuginfod's paths, and answers as `reply` does."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            try:
                reply(self)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            del format, arguments

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield Stranger(url=f"http://127.0.0.1:{server.server_address[1]}", asked=asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sends(data: bytes) -> Reply:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(data)

    return reply


def not_found(request: BaseHTTPRequestHandler) -> None:
    request.send_error(404)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(bytes(1 << 16))


def slow(request: BaseHTTPRequestHandler) -> None:
    for _ in range(1000):
        request.wfile.write(b"H")
        time.sleep(0.05)


def huge(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(1 << 50))
    request.end_headers()


def cut_off(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"\x7fELF")


def redirects(target: str) -> Reply:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", target)
        request.end_headers()

    return reply


# A real server.


def test_lines_come_from_a_real_server_and_the_report_says_so(
    crashed: Crashed, tmp_path: Path
) -> None:
    before = explained(crashed, tmp_path).crash
    with debuginfod(crashed.published, tmp_path) as server:
        fetched = explained(crashed, tmp_path, "--debuginfod", server).crash
        by_name = explained(crashed, tmp_path, "--debuginfod", servers=f"{server} ").crash

    assert before["culprit"]["line"] is None
    assert module_of(before, crashed)["debug_from"] is None
    for crash in (fetched, by_name):
        assert crash["culprit"]["function"] == "cache::read_block"
        assert crash["culprit"]["line"] == FALLING_LINE
        assert module_of(crash, crashed)["debug_from"] == server


def test_what_was_fetched_is_kept_and_shown(crashed: Crashed, tmp_path: Path) -> None:
    debug = (crashed.published / "serve.debug").read_bytes()
    with stranger(sends(debug)) as server:
        explained(crashed, tmp_path, "--debuginfod", server.url)
        asked = list(server.asked)
        text = forensics(
            *("core", "--no-store", "--depth", "stack", "--debuginfod", server.url, crashed.core),
            environment=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "no_proxy": "*"},
        )

        assert [path for path in server.asked if crashed.build_id in path] == [
            f"/buildid/{crashed.build_id}/debuginfo"
        ]

    assert asked
    assert f"the lines of #0, #1 in serve, from {server.url}" in text.stdout


def test_a_program_that_is_gone_comes_from_the_server_too(crashed: Crashed, tmp_path: Path) -> None:
    hidden = crashed.program.with_name("hidden")
    crashed.program.rename(hidden)
    try:
        with debuginfod(crashed.published, tmp_path) as server:
            crash = explained(crashed, tmp_path / "cache", "--debuginfod", server).crash
    finally:
        hidden.rename(crashed.program)

    assert crash["culprit"]["function"] == "cache::read_block"
    assert crash["culprit"]["line"] == FALLING_LINE


def test_gdb_opens_with_what_was_fetched(crashed: Crashed, tmp_path: Path) -> None:
    debug = (crashed.published / "serve.debug").read_bytes()
    with stranger(sends(debug)) as server:
        done = subprocess.run(
            [COMMAND, "core", "--gdb", "--debuginfod", server.url, crashed.core],
            input="frame 0\nquit\n",
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "no_proxy": "*"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert f"serve.cpp:{FALLING_LINE}" in done.stdout, done.stdout + done.stderr


# Never without being asked.


def test_no_server_is_contacted_unless_asked_for(crashed: Crashed, tmp_path: Path) -> None:
    with stranger(not_found) as server:
        for options in ([], ["--depth", "stack"], ["--depth", "full"], ["--audit"]):
            answer = explained(crashed, tmp_path, *options, servers=server.url)
            assert "Traceback" not in answer.stderr
        silent = list(server.asked)
        explained(crashed, tmp_path, "--debuginfod", servers=server.url)

        assert silent == []
        assert server.asked


def test_only_modules_of_the_crashing_stack_are_asked_for(crashed: Crashed, tmp_path: Path) -> None:
    with stranger(not_found) as server:
        crash = explained(crashed, tmp_path, "--debuginfod", server.url).crash

        frames = {frame["module"] for frame in crash["threads"][0]["frames"]}
        on_stack = {m["build_id"] for m in crash["modules"] if m["path"] in frames}
        assert {path.split("/")[2] for path in server.asked} <= on_stack
        assert len(server.asked) == len(set(server.asked))

    assert any("no debug information of serve" in gap["what"] for gap in crash["gaps"])


def test_a_core_after_the_option_is_a_core_and_no_address(crashed: Crashed, tmp_path: Path) -> None:
    with stranger(not_found) as server:
        answer = forensics(
            *("core", "--format", "json", "--no-store", "--debuginfod", crashed.core),
            environment=os.environ
            | {"XDG_CACHE_HOME": str(tmp_path), "DEBUGINFOD_URLS": server.url, "no_proxy": "*"},
        )

        assert answer.crash["core"] == str(crashed.core)
        assert server.asked


def test_what_it_is_not_for_is_said(crashed: Crashed, tmp_path: Path) -> None:
    with stranger(not_found) as server:
        answer = explained(crashed, tmp_path, "--audit", "--debuginfod", server.url)

        assert answer.status == 2
        assert "not for --pid or --audit" in answer.stderr
        assert server.asked == []


def test_an_option_without_any_server_says_what_to_type(crashed: Crashed, tmp_path: Path) -> None:
    answer = explained(crashed, tmp_path, "--debuginfod")

    assert answer.status == 2
    assert "DEBUGINFOD_URLS" in answer.stderr


# Strangers.

SMALL = FetchLimits(file_bytes=1 << 20, file_s=3.0, all_s=30.0, idle_s=1.0)


def client(server: str, folder: Path, limits: FetchLimits = SMALL) -> Debuginfod:
    def is_of_build(path: str, build_id: str) -> bool:
        try:
            data = Path(path).read_bytes()
            return bool(data) and parse_module(memoryview(data)).build_id == build_id
        except EvidenceError:
            return False

    return Debuginfod([server], is_of_build, folder=folder, limits=limits)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (endless, "more than 1,048,576 bytes"),
        (huge, "it offers"),
        (slow, "no answer within|timed out|did not finish"),
        (cut_off, "it stopped after|IncompleteRead"),
        (sends(b"<html>sign in</html>"), "something else than build"),
        (sends(Path("/bin/true").read_bytes()), "something else than build"),
        (redirects("file:///etc/hostname"), "status 302"),
        (redirects("ftp://127.0.0.1/x"), "redirects to ftp: refused"),
        (redirects("/again"), "status 302"),
        (lambda request: request.send_error(500), "status 500"),
    ],
    ids=["endless", "huge", "slow", "cut", "html", "other", "file", "ftp", "loop", "500"],
)
def test_a_server_that_means_no_good_costs_its_answer_only(
    tmp_path: Path, reply: Reply, said: str
) -> None:
    with stranger(reply) as server, pytest.raises(EvidenceError, match=said) as failure:
        client(server.url, tmp_path).fetch("ab" * 20, FetchedKind.DEBUG)

    assert failure.value.remedy
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_server_that_did_not_answer_in_time_is_not_asked_again(tmp_path: Path) -> None:
    with stranger(slow) as server:
        fetching = client(server.url, tmp_path)
        for build_id in ("ab" * 20, "cd" * 20):
            with pytest.raises(EvidenceError, match="no answer within"):
                fetching.fetch(build_id, FetchedKind.DEBUG)

        assert len(server.asked) <= 1


@pytest.mark.parametrize("build_id", ["../../etc/passwd", "", "ab/../cd", "AB" * 20, "a"])
def test_a_build_id_that_is_none_is_never_asked_for(tmp_path: Path, build_id: str) -> None:
    with stranger(not_found) as server:
        assert client(server.url, tmp_path).fetch(build_id, FetchedKind.DEBUG) is None
        assert server.asked == []


def test_the_budget_of_a_run_ends_the_fetching(crashed: Crashed, tmp_path: Path) -> None:
    debug = (crashed.published / "serve.debug").read_bytes()
    with stranger(sends(debug)) as server:
        fetching = client(server.url, tmp_path, FetchLimits(all_bytes=len(debug)))

        assert fetching.fetch(crashed.build_id, FetchedKind.DEBUG) is not None
        with pytest.raises(EvidenceError, match="enough"):
            fetching.fetch("ab" * 20, FetchedKind.DEBUG)


def test_a_damaged_file_of_the_cache_is_fetched_again(crashed: Crashed, tmp_path: Path) -> None:
    kept = tmp_path / crashed.build_id / "debuginfo"
    kept.parent.mkdir()
    kept.write_bytes(b"\x7fELF")
    debug = (crashed.published / "serve.debug").read_bytes()
    with stranger(sends(debug)) as server:
        found = client(server.url, tmp_path).fetch(crashed.build_id, FetchedKind.DEBUG)

    assert found is not None
    assert kept.read_bytes() == debug
