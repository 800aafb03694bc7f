"""tools/prose.py: each rule reports a bad example and passes a good one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PROSE = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "prose.py"))


def found(path: str, source: str) -> list[tuple[int, str]]:
    return [(line, rule) for line, rule, _ in PROSE["findings"](path, source)]


SENTENCES = {
    "again": ("Builds it anew.", "Builds it again."),
    "request": ("A valid wish.", "A valid request."),
    "stored": ("The file is read where it lies.", "The value lies between 0 and 1."),
    "current": ("The record in force is read.", "A record in forceful words."),
    "continues": ("The search goes on.", "The window goes on top."),
    "available": ("No thread is to be had.", "A GPU is available."),
    "without": ("Lost lines are done without.", "It runs without them."),
    "expensive": ("The rest looks dear.", "The rest looks expensive."),
    "even": ("Not so much as a byte.", "So much for bytes."),
    "person": ("Locked by somebody else.", "Locked by another process."),
    "corrupt": ("A damaged file.", "A corrupt file."),
    "image": ("Two pictures per row.", "Two images per row."),
    "checksum": ("The seal of the file.", "It is above sealevel."),
    "signature": ("A stamp per file.", "A timestamp per file."),
    "run": ("Every cell has a seed.", "The last table cell is empty."),
    "report": ("The header says so.", "The header states it."),
    "multi-label": ("Images with several labels.", "Multi-label images."),
    "evaluate": ("The queries are looked at once.", "The queries look good."),
    "validation": ("The watched epochs.", "The watchdog."),
    "per": ("It starts a thread a core.", "A key names a file that has a row."),
    "start": ("What a search returns.", "What does a search return?"),
}

VERB = ('def f():\n    """{}"""\n', "Rows of the file.", "Returns rows.")
NOUN = ('class F:\n    """{}"""\n', "Returns rows.", "Rows of the file.")


@pytest.mark.parametrize("rule", SENTENCES)
def test_word_rules_bad_sentence_reported(rule: str) -> None:
    bad, good = SENTENCES[rule]
    for path, form in [("a.md", "Good.\n\n{}\n"), ("a.py", "x = 1\n\n# {}\n"), ("a.hpp", "int x;\n\n// {}\n")]:
        assert found(path, form.format(bad)) == [(3, rule)]
        assert found(path, form.format(good)) == []


def test_rules_all_have_examples() -> None:
    assert {rule for rule, _, _ in PROSE["RULES"]} == {*SENTENCES, "verb", "noun", "long"}


@pytest.mark.parametrize(("rule", "form", "bad", "good"), [("verb", *VERB), ("noun", *NOUN)])
def test_docstring_rules_bad_start_reported(rule: str, form: str, bad: str, good: str) -> None:
    assert found("a.py", form.format(bad)) == [(2, rule)]
    assert found("a.py", form.format(good)) == []


@pytest.mark.parametrize("name", ["__init__", "test_f"])
def test_docstring_rules_exempt_function_passes(name: str) -> None:
    assert found("a.py", f'def {name}():\n    """Rows."""\n') == []
    assert found("a.py", '@property\ndef f():\n    """Rows."""\n') == []


def test_long_sentence_reported() -> None:
    words = "word\n" * 29
    assert found("a.md", f"{words}`a b c`\nend.\n") == [(1, "long")]
    assert found("a.md", f"{words}`a b c`.\n") == []
    assert found("a.md", f"| {words[:60]}| {words[:60]}|\n".replace("d\n", "d ")) == []


def test_width_long_line_reported() -> None:
    assert found("a.md", "Short.\n\n" + "Word. " * 20 + "\n") == [(3, "width")]
    assert found("a.md", "| " + "Word. " * 20 + "|\n") == []
    assert found("a.md", "- [text](" + "x" * 100 + ")\n") == []
    assert found("a.md", "```\n" + "Word. " * 20 + "\n```\n") == []


def test_strings_message_reported() -> None:
    assert found("a.py", 'raise E(f"{path}: is "\n    "damaged here")\n') == [(2, "corrupt")]
    assert found("a.cpp", 'fail("the file is damaged");\n') == [(1, "corrupt")]
    assert found("a.py", 'damaged = {"damaged": 1}\n') == []
    assert found("a.md", "`damaged`\n\n```\ndamaged\n```\n") == []


def test_sentences_broken_over_lines_reported() -> None:
    assert found("a.cpp", "    // It goes\n    // on.\n") == [(1, "continues")]
    assert found("a.py", "x = 1  # it goes\ny = 2  # on\n") == []
