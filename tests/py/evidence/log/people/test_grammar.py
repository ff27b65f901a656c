"""Grammar tells whom a text speaks of, in any language that the table knows."""

import pytest

from vllm_forensics.evidence.log.people.grammar import Persons, persons_in

LESSONS = {
    "English": "If you see this, the limit of the pool is too small. It is usually the default.",
    "German": "Wenn Sie das sehen, ist die Grenze zu klein. Meist ist es die der Zelle.",
    "French": "Si vous voyez cela, la limite est trop petite. Par exemple une pile, pas plus.",
    "Spanish": "Si usted lo ve, el límite es que la pila no crece. Por ejemplo en una celda.",
    "Portuguese": "Se você vê isso, o limite não é da pilha. Geralmente é uma das células.",
    "Chinese": "如果你看到这个\uff0c上限是太小的了。通常是默认值。",
    "Japanese": "この場合、上限は小さいです。通常は設定が原因です。設定を調べてください。",
}  # fmt: skip


@pytest.mark.parametrize("text", LESSONS.values(), ids=LESSONS)
def test_a_lesson_speaks_to_a_reader_of_what_may_be(text: str) -> None:
    persons = persons_in([text])

    assert persons.first == 0
    assert min(persons.reader, persons.supposed, persons.general) >= 1


def test_a_report_speaks_of_its_writer() -> None:
    german = "Ich habe die Grenze gesetzt, und mein Programm ist nicht mehr das alte."
    chinese = "我的程序在启动后是这样的。"

    assert persons_in([german]).first == 2
    assert persons_in([chinese]).first == 1


def test_a_language_that_is_not_spoken_is_not_asked() -> None:
    english = "The pool is full, and the limit of the cells is in mein and the si of je."

    assert persons_in([english]) == Persons(first=0, reader=0, supposed=0, general=0)
