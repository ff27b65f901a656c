"""Who died, as the line that started it, its launcher's label or its parent's line tells."""

import pytest
from tests.py.support.incidents import incident_of


@pytest.mark.parametrize(
    ("log", "name"),
    [
        # what was started, above
        ("Running: /opt/pool/bin/serve --port 80\nfree(): invalid pointer\n", "serve"),
        ("Launching: bin/serve --port 80\nmunmap_chunk(): invalid pointer\n", "serve"),
        ("/bin/sh -c ./gen_blocks --out x\nSegmentation fault (core dumped)\n", "gen_blocks"),
        ("Running: 12 tests\nfree(): invalid pointer\n", None),
        # in the parent's own line, or below it
        ("The command '/bin/sh -c python setup.py' returned a non-zero code: 139", "python"),
        ("The command '/bin/sh -c apt-get update' returned a non-zero code: 137", None),
        ("ERROR: InvocationError for command /opt/tox/bin/pytest tests/ (exited with code -11 "
         "(SIGSEGV)) (exited with code -11)", "pytest"),
        ('Command terminated by signal 11\n\tCommand being timed: "./serve --port 80"\n', "serve"),
        ("npm ERR! code 139\nnpm ERR! path /app\nnpm ERR! command sh -c node build.js\n", "node"),
        ('{"containers": [{"name": "engine", "exitCode": 139, "lastStatus": "STOPPED"}]}',
         "engine"),
        ("Container engine-1 exited with code 137 (OOMKilled)", "engine-1"),
        ("Task failed: pod serve-0, container engine: OOMKilled (exit code 137)", "engine"),
        ("Container was killed (OOMKilled)", None),
        ("  engine:\n    Container ID:  docker://1\n    Last State:     Terminated\n"
         "      Reason:       OOMKilled\n", "engine"),
        ('docker inspect shows "OOMKilled": true, "ExitCode": 137', None),
        ("Mon 2026-01-15 08:12:45 UTC    4242  1000  1000  11 present   /opt/pool/bin/serve",
         "serve"),
        ("Command '('/opt/pool/serve', '-p', '80')' returned non-zero exit status -11", "serve"),
        ("job returned non-zero exit status -11", None),
        # by whoever forwards what it writes
        ("[1,3]<stderr>:Fatal Python error: Segmentation fault\n", "rank 3"),
        ("[1]<stderr>:terminate called without an active exception\n", "rank 1"),
        ("[pool-server-2] terminate called without an active exception\n", "pool-server-2"),
        ("[inference-worker] Fatal Python error: Segmentation fault\n", "inference-worker"),
        ("[http-server-exec-3] terminate called without an active exception\n", None),
        ("[worker-thread-3] terminate called without an active exception\n", None),
        ("[info] terminate called without an active exception\n", None),
        # by whoever waited for it
        ("srun: error: node1: task 12: Segmentation fault (core dumped)", "task 12"),
        ("ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) "
         "local_rank: 3 (pid: 4242) of binary: /usr/bin/python3", "local_rank: 3"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal "
         "SIGSEGV", "process 1"),
    ],
)  # fmt: skip
def test_what_was_started_or_forwarded_names_who_died(log: str, name: str | None) -> None:
    assert incident_of(*log.splitlines()).first_death.name == name
