"""The same line is a death in a log, and none in source code, lessons and lists of changes."""

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import Clue, ClueKind

FAULT = "Segmentation fault (core dumped)"


def clues_in(text: str) -> tuple[Clue, ...]:
    return parse_incident_log([text.encode()]).clues


SHOWN = {
    "a literal of many lines": """\
import textwrap

DUMP = textwrap.dedent('''
Fatal Python error: Segmentation fault

Current thread 0x00007f1be0000700 (most recent call first):
  File "/opt/app/pool.py", line 3 in take
''')


def test_the_dump_is_read():
    assert read(DUMP) == "SIGSEGV"
""",
    "a comment of many lines": f"""\
int main(void) {{
    take(pool);
    /*
    {FAULT}
    */
    return 0;
}}
""",
    "the last line of a module": """\
class Engine:
    def step(self):
        if self.dead:
            raise EngineDeadError()
""",
    "a lesson": f"""\
# Pointers

In this chapter we will look at pointers. A pointer that points nowhere usually ends the program:

```
$ ./pointers
{FAULT}
```

This message means that memory was touched which is not yours.
""",
    "a lesson in French": f"""\
Vous pouvez lancer le programme, par exemple ainsi :

    $ ./pointeurs
    {FAULT}

puis taper « backtrace » pour voir la pile des appels.
""",
    "an example in a manual": f"""\
The job ends early
------------------

If you see the following in the output, raise the limit of the stack:

    {FAULT}
""",
    "documentation's source": f"""\
Example
-------

.. code-block:: console

    $ ./pointers
    {FAULT}
""",
    "a log of commits": f"""\
commit 0123456789abcdef0123456789abcdef01234567
Author: Example <example@example.com>
Date:   Thu Jan 15 08:12:45 2026 +0000

    Close the pool once

    The second close ended in

        {FAULT}
""",
    "comments among code": f"""\
LIMIT = 60.0
# What the shell prints:
#   {FAULT}
PATTERN = re.compile("core dumped")
""",
    "nothing but comments": """\
# genuinely parallel calls end the interpreter
# (`Fatal Python error: Segmentation fault`, in the second
# thread), so they are kept apart.
""",
    "a literal of Go": """\
	input := `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x123]
main.main()`
""",
    "a docstring": f"""\
'''Ends a child on purpose.

{FAULT}
'''
""",
    "a comment in a block of commands": f"""\
```bash
kubectl describe pod app
# {FAULT}
```
""",
    "a command with a place to fill in": f"""\
```
kubectl logs <pod-name> --previous
```

Usually the last lines say what happened:

{FAULT}
""",
    "an example under a title": f"""\
### Example 1: a null pointer

```
{FAULT}
```
""",
    "a bold entry of known problems": """\
### Troubleshooting

**The build ends with "Bus error (core dumped)":**

The memory of the builder is exhausted.
""",
    "a table of messages": """\
| message | what to do |
|---|---|
| `libpool.so.1: cannot open shared object file` | install the pool |
""",
    "a variable of a shell below a comment": """\
# pool: symbol lookup error: /opt/lib/libpool.so: undefined symbol: _ZN4pool4takeEv
OPTIONS="use_pool=0
         use_heap=1"
""",
    "what a reader may have seen": f"""\
Who runs programs of his own knows this: you could have seen a message of this kind:

## `{FAULT}`
""",
    "a list of symptoms": """\
Symptoms may include:

- `malloc(): corrupted top size`
- a crash inside `free`
""",
    "an entry of known problems": f"""\
#### Error: "core dumped"

```
{FAULT}
```

**Cause:** the stack is too small

**Solutions:**
- raise its limit
""",
    "questions and answers": f"""\
Q: What if I get this when it starts?
{FAULT}
A: The library for your processor is missing.
""",
    "a section's title": f"""\
### {FAULT}

The prebuilt library needs a newer processor.
""",
    "a glossary": """\
- **`Watchdog caught collective operation timeout`** is a timeout of one operation
""",
    "an expected output": f"""\
Start it once more.

**Expected output:**
```
{FAULT}
```
""",
    "a condition in a manual": f"""\
If the command fails with the message:

{FAULT}

install the library for older processors.
""",
    "a lesson in Chinese": f"""\
    {FAULT}

  - 段错误通常表示程序访问了无效的内存地址。
  - 这可能是空指针。
""",
    "a table of codes without lines": """\
Codes and their reasons

Exit Code 1 The command failed
Exit Code 127 The command was not found
Exit Code 137 The kernel ended it (SIGKILL)
Exit Code 139 It touched what is not its own (SIGSEGV)
""",
    "codes with what they mean below": """\
Exit 137 (the commonest)
- it was killed
- the limit of memory was reached
Exit 143
- somebody asked it to end
Exit 1
- look into its own log
Exit 139
- a fault in native code
""",
    "who would see it": "It should send an event if we notice OOMKilled:true on a pod.\n",
    "who looks for it": "I look for exit code 137 in the logs of the pods.\n",
    "a name on top of a page that explains": """\
Segmentation fault

An access outside of a process's memory. You may see it if a pointer is not set, for example.
""",
    "a comment above a command": """\
The container was small.

# Verify OOMKilled and exit code 137
docker inspect -f '{{.State.ExitCode}}' pool
""",
    "a table of signals": """\
SIGABRT  6   the program gave up
SIGKILL  9   killed by SIGKILL, which none can catch
SIGSEGV  11  exited with signal 11
""",
    "a section of a reference": """\
# Statuses

The launcher tells how a step ended.

### Out of memory (exit code 137)

The step needed more than its limit.
""",
    "an empty form for reports": f"""\
---
name: Report
about: Tell what went wrong
---

**What happened**
Paste what the program printed, this includes {FAULT}

- System: [e.g. Linux]
""",
    "what was made up between sentences": """\
The pool keeps its workers. A worker that takes too long is ended by its parent.
The log of the pool then has a line for it, beside that of the new worker.

[ERROR] Worker (pid:12345) was sent SIGKILL! Perhaps out of memory?

The limit is thirty seconds. It is set for the whole pool.
""",
    "a lesson in Japanese": """\
概要

メモリが足りない場合、カーネルはプロセスを終了させます。ログには次の行が残ります。

Out of memory: Killed process 12345 (app) total-vm:4096000kB, anon-rss:3500000kB

1. 原因

上限を調べてください。スワップも増やすことができます。

2. 対策
""",
    "a lesson in Russian": f"""\
Ошибка сегментации - это обращение к чужой памяти.
Если вы читаете за концом массива, программа может упасть.

    {FAULT}

\u0412 этом случае можно взять отладчик. Когда он остановится, вам нужен стек.
""",
    "a definition in Portuguese": f"""\
Segmentation fault, ou segfault, é um erro que ocorre se um programa lê o que não é seu. Ele
pode ter muitas causas. O seu programa termina com a mensagem em uma linha:

{FAULT}

Quando isso ocorre, você pode usar um depurador.
""",
    "a list of changes": f"""\
## 1.4.2

* The pool is closed once; before, a program ended with
  {FAULT}
* New option for the number of threads
""",
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_a_text_only_shows_is_no_clue(text: str) -> None:
    assert {clue.kind for clue in clues_in(text)} <= {ClueKind.MENTION}


PRINTED = {
    "a script and its output": f"""\
import pool

def run():
    pool.take(3)

run()
{FAULT}
""",
    "a report with code around": f"""\
This is how I run it:

```python
import pool
pool.take(3)
```

```
{FAULT}
```

My workaround:

```python
import pool
pool.take(2)
```
""",
    "a reply that explains": f"""\
My program ends like this, any idea?

    {FAULT}

This usually means that a pointer is wrong; you can use a debugger, typically gdb.
""",
    "a program's advice": f"""\
WARNING 01-15 08:12:45 [envs.py:12] You can set POOL=1, which is usually faster.
WARNING 01-15 08:12:46 [envs.py:12] You may want to raise the limit, for example to 1024.
{FAULT}
""",
    "a crash handler's advice": f"""\
{FAULT}
This could be because you hit a bug. You can use the following information to find out
where it died. If you see no messages after this, something went terribly wrong.
""",
    "advice in a fence": f"""\
# Ends at once

```
If you see the following, the memory is full; usually you can raise the limit.
{FAULT}
```
""",
    "an article that somebody quotes": f"""\
The server ended today:

    {FAULT}

> What is a fault?
> A fault typically occurs when memory is touched that is not mapped, usually by a null pointer.
""",
    "a record of Java in a fence": """\
```
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f1be0001234, pid=4242, tid=4250
#
# JRE version: OpenJDK Runtime Environment (17.0.1+12)
```
""",
    "a record of V8": """\
#
# Fatal error in , line 0
# Check failed: blocks->IsFree().
#
#
#FailureMessage Object: 0x7ffd1be0f230
""",
    "an exception of another process": """\
multiprocessing.pool.RemoteTraceback:
\"\"\"
Traceback (most recent call last):
  File "/opt/app/job.py", line 4, in job
    return 1 // number
ZeroDivisionError: integer division or modulo by zero
\"\"\"
""",
    "a transcript": f"""\
$ ulimit -c 0 && ./build.sh 2>/dev/null
$ ./pointers && echo fine
{FAULT}
$ dmesg | grep -i fault
""",
    "a report of an example": f"""\
# Crash of the tutorial's example code

{FAULT}
""",
    "glog's own words": """\
# The pool ends early

*** Aborted at 1572713356 (unix time) try "date -d @1572713356" if you are using GNU date ***
    @ 0x598a07b3 take
    @ 0x2a2597 main
""",
    "two ranks that died": """\
rank 0 exited with code 137
rank 1 exited with code 139
rank 2 exited with code 139
""",
    "an anonymous log": "[ERROR] Worker (pid:12345) was sent SIGKILL! Perhaps out of memory?\n",
    "a section of a report": """\
# The pool ends early

I have this since the update.

### exit code 139

and no core.
""",
    "a report in German": f"""\
Wenn ich den Zustand speichere, endet mein Programm. Man kann es mit jeder Datei sehen, wenn sie nur
groß ist. Ich kann den Fehler nicht finden. Muss man die Grenze setzen, wenn man so große hat?

{FAULT}
""",
    "a report in Korean": f"""\
저는 새 버전을 쓰고 있습니다. 서버가 시작되면 이렇게 됩니다.

{FAULT}

도와주세요.
""",
    "a thread of two people": f"""\
# The pool ends early

one · description · 2026-01-15
{FAULT}

two · comment · 2026-01-15
If you can, run it in a debugger. When it stops, you could type `bt`. You may need the symbols.
""",
    "a traceback's source": """\
Traceback (most recent call last):
  File "/opt/app/serve.py", line 9, in <module>
    main()
  File "/opt/app/serve.py", line 6, in main
    raise ValueError("no block")
ValueError: no block
""",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED)
def test_what_was_printed_stays_a_clue(text: str) -> None:
    assert clues_in(text)


def test_what_may_happen_is_told_and_not_printed() -> None:
    (clue,) = clues_in(f"With two threads the program may crash like this:\n\n{FAULT}\n")

    assert clue.is_told


def test_who_teaches_a_little_tells_and_does_not_print() -> None:
    (clue,) = clues_in(f"See it on your machine, with a small stack:\n\n{FAULT}\n")

    assert clue.is_told


def test_who_works_out_a_status_and_says_how_to_mend_it_teaches() -> None:
    lesson = (
        "Exit code 137: what it means and how to fix it\n\n"
        "137 is 128 + 9: a process was killed unexpectedly.\n\n"
        "    Last State:  Terminated\n      Reason:    OOMKilled\n      Exit Code: 137\n\n"
        "139 is 128 + 11 and another story.\n"
    )

    assert clues_in(lesson) == ()


def test_what_a_page_of_issues_prints_is_no_lesson() -> None:
    page = (
        "By clicking this button, you agree to our terms. We may send you mail.\n"
        f"It ends when the pool is closed.\n{FAULT}\n"
        "The text was updated successfully, but these errors were encountered:\n"
    )

    assert clues_in(page)


def test_the_title_of_a_pull_request_tells_of_no_death() -> None:
    title = "# Segfault in the pool\n\none \u00b7 description \u00b7 2026-01-15\nSee there.\n"

    assert clues_in(title)
    kinds = {
        clue.kind for clue in clues_in(f"one/pool \u00b7 pull request #7 \u00b7 merged\n{title}")
    }
    assert kinds <= {ClueKind.MENTION}


def test_a_real_stack_in_a_lesson_is_told() -> None:
    lesson = (
        "A segfault is an access to what is not yours. If you have a core, you can open it. "
        "When you type `bt`, you should see where it was:\n\n"
        "Program terminated with signal SIGSEGV, Segmentation fault.\n"
        "#0  0x000055d0c1a3b7f2 in take (pool=0x0) at pool.c:31\n"
        "#1  0x000055d0c1a3b91c in main () at pool.c:77\n"
    )

    reading = parse_incident_log([lesson.encode()])

    assert reading.teaches
    assert all(clue.is_told for clue in reading.clues)
    assert clues_in(lesson.replace("55d0c1a3b", "7f1234567")) == ()


def test_a_member_of_a_document_stands_in_no_code() -> None:
    document = """\
[
    {
        "Path": "/srv/start.sh",
        "Args": [
            "/bin/sh",
            "-c",
            "serve --port 8000"
        ],
        "State": {
            "Status": "exited",
            "ExitCode": 139,
            "Error": "",
        },
        "Image": "sha256:5f11d9aad213"
    },
]
"""

    assert [clue.exit for clue in clues_in(document)] == [139]


def test_a_manuals_page_is_known_by_its_sections() -> None:
    page = (
        "probe\n\nName\n\nprobe - fires\n\nSynopsis\n\nprobe\n\nValues\n\nthe task being killed\n"
    )

    assert clues_in(page) == ()


def test_a_broken_tables_cell_is_no_clue() -> None:
    table = (
        "Status values\n| Killed | 1 |\nBy a signal.\n|\n| Crashed | 2 |\nSegmentation fault.\n|\n"
    )

    assert clues_in(table) == ()
    assert clues_in(table.replace("|", ""))


def test_who_asks_whether_others_see_something_teaches_nothing() -> None:
    text = "# Finally, it was killed\n\nCan you see anything in this? Thank you.\n"

    assert clues_in(text)


def test_a_machines_own_log_in_a_lesson_is_told() -> None:
    kill = "Jan 21 08:26:41 pool2 kernel: Out of memory: Killed process 24774 (poold)\n"
    text = (
        "Small machines have little memory. The server does not start, as the kernel's log says:\n"
        "Jan 21 08:26:40 pool2 systemd[1]: Started poold.service.\n" + kill + "\n"
        "This usually means that your server needs more memory. You can add swap. You should set "
        "the size of the pool in your configuration. For example, the default is 128 MB.\n"
    )

    reading = parse_incident_log([text.encode()])
    invented = parse_incident_log([text.replace("24774", "12345").encode()])

    assert [clue.is_told for clue in reading.clues] == [True]
    assert invented.clues == ()


def test_a_program_with_its_output_may_be_an_example() -> None:
    lesson = f"""\
The pool is closed twice.
It prints this after it was built.

$ g++ pool.cpp -o pool
int main() {{
    close(pool);
    close(pool);
}}
$ ./pool
{FAULT}

The second call frees what is gone.
It has nothing left to close.
The first one took it all.
"""

    (clue,) = clues_in(lesson)
    (own,) = clues_in(lesson.replace("The pool is", "I have a pool that is"))

    assert clue.is_told
    assert not own.is_told


def test_a_kill_in_a_sentence_of_code_is_told() -> None:
    (clue,) = clues_in("The panel shows `reason: OOMKilled` on the pods of the pool.\n")

    assert clue.is_told


def test_clues_far_from_the_beginning_are_kept() -> None:
    noise = "a step of the pool\n" * 5_000
    raised = PRINTED["a traceback's source"]

    assert len(clues_in(f"{noise}{raised}{FAULT}\n")) == 2


def test_so_many_deaths_are_a_log() -> None:
    text = f"$ x > /dev/null 2>&1\n{FAULT}\n=== 3 passed in 1s\n"

    assert clues_in(text) == ()
    assert len(clues_in(text * 500)) == 500


def test_what_is_wished_for_when_something_is_seen_was_not_seen() -> None:
    text = (
        "# Detect pods without memory\n\nThe alert should fire if the pod has a state of:\n\n"
        "```\nLast State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n```\n"
    )

    assert all(clue.is_told for clue in clues_in(text))


def test_what_may_look_so_was_not_seen() -> None:
    text = f"# Show the address\n\nWith this the output may look like:\n\n```\n{FAULT}\n```\n"

    assert all(clue.is_told for clue in clues_in(text))


def test_syslog_names_one_program_a_line() -> None:
    (clue,) = clues_in("Jan 15 08:12:45 node1 gitlab-runner[42]: Job failed: exit code 137\n")

    assert (clue.exit, clue.writer) == (137, "gitlab-runner")


def test_one_word_of_a_title_is_no_signal_beside_the_one_that_it_names() -> None:
    clues = clues_in("# serve.service: Main process exited, code=killed, status=11/SEGV\n\nWhy?\n")

    assert {clue.signal for clue in clues} == {"SIGSEGV"}


def test_what_a_change_shows_is_told() -> None:
    text = (
        "# Restore the message on exit\n\nBefore:\n\n  F0115 08:12:45.123456 7 pool.cc:8] Check "
        "failed: size > 0\n  Aborted\n\nWith this patch both print the same.\n"
    )

    assert all(clue.is_told for clue in clues_in(text))


def test_a_page_that_says_what_its_title_is_reports_nothing() -> None:
    text = (
        "Segmentation Fault\n\nFrom a wiki\n\nSegmentation Fault is a game for two players, and "
        "whoever says so first has lost:\n\nSegmentation fault\n\nThen the other one begins.\n"
    )

    assert clues_in(text) == ()


def test_what_somebody_answers_to_a_form_is_told() -> None:
    text = "# Segfault when I take\n\n**What happened**:\n\nSegmentation fault\n\nIt is new.\n"

    clues = parse_incident_log([text.encode()]).clues

    assert clues
    assert all(clue.is_told for clue in clues)
