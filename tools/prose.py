"""Lint for plain English in Markdown, comments, docstrings and messages: prose_rules.txt has its rules.

prose_allow.txt has the exceptions, one `path: words` per line. The words are not checked in files that match the path.
"""

import argparse
import ast
import itertools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAX_WORDS, MAX_COLUMNS = 30, 100
FORCED = re.compile(r"\s*(\||([-*>] |\d+\. )?\S{80})")  # a table row, or a word that needs a line of its own
FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
CODE = re.compile(r"(?s)``.+?``|`[^`]+`|\{[^{}]*\}|(?<=\])\([^)\s]*\)|https?://\S+")
STRING = r"""\d'(?=\d)|[a-zA-Z]*(?P<mark>\"{3}|'{3}|["'])(?P<string>(\\.|.)*?)(?P=mark)|\S"""  # 1'000 is C++
PYTHON, C = (re.compile(f"(?s)(?P<comment>{comment})|{STRING}") for comment in ("#[^\n]*", r"//[^\n]*|/\*.*?\*/"))
ADJACENT = re.compile(r'(?<=[^"])"(\s*\n\s*)[rf]?"(?=[^"])')  # strings that the compiler joins
MARKER = re.compile(r"(?m)^[ \t]*(#+:?|/[/*]+[!<]*|\*+/?(?= |$))|\*/$")
BOUNDARY = re.compile(  # the end of a sentence or a table cell, or the start of an item, a heading or a paragraph
    r"(?m)(?<!e\.g)(?<!i\.e)[.!?][\"')*]*\s+(?=[^a-z\s]|\w+: )|\s*\|\s*|\Z|"
    r"^(?=[ >]*(([-*+]|#+|\d+\.) |$|\S+ {2,}\S|[\w`*]+(, [\w`*]+)*: |(Args|Returns|Raises):$))"
)


def table(name: str, separator: str) -> list[list[str]]:
    """Returns the rows of a table beside this file, the last column compiled: a space also matches a line break."""
    rows = [line for line in (HERE / name).read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [re.split(separator, row, maxsplit=2) for row in rows]


RULES = [
    (rule, hint, re.compile(f"(?is){x}".replace(" ", r"\s+"))) for rule, hint, x in table("prose_rules.txt", " {2,}")
]
ALLOWED = [
    (path, re.compile("(?s).+" if x == "*" else re.escape(x).replace("\\ ", r"\s+")))
    for path, x in table("prose_allow.txt", ": ")
]


def hide(words: re.Pattern[str], text: str, name: str) -> str:
    """Returns the text with a name in place of the words; line breaks stay."""
    return words.sub(lambda match: name + "\n" * match[0].count("\n"), text)


def words_only(match: re.Match[str]) -> str:
    """Returns a comment, or a string of at least three words, without its marks; other code becomes a boundary."""
    comment, string = match["comment"], match["string"] or ""
    if string.count("\n") and match.string[: match.start()].rpartition("\n")[2].strip():
        string = string.replace("\n", "|\n")  # no docstring, but examples or code: one line after the other
    kept = MARKER.sub("", comment) if comment else f"|{string}|"
    return kept if comment or string.count(" ") > 1 else "|" + "\n" * match[0].count("\n")


def docstrings(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, rule and text of the docstrings that have to begin in a certain way."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names = " ".join([*map(ast.unparse, getattr(node, "decorator_list", [])), getattr(node, "name", "")])
            if (text := ast.get_docstring(node)) and not re.search(r"property|fixture|\btest_|__init__", names):
                yield node.body[0].lineno, "noun" if isinstance(node, (ast.Module, ast.ClassDef)) else "verb", text


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yields the sentences, headings, items and table cells of a text, each with its line, counted from 0."""
    start = line = 0
    for boundary in BOUNDARY.finditer(text):
        part, start = text[start : boundary.end()], boundary.end()
        if part.strip(" \n|"):
            yield line + part[: -len(part.lstrip())].count("\n"), part.strip(" \n|")
        line += part.count("\n")


def findings(path: str, source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, rule and text of each finding."""
    texts = [(1, "", hide(FENCE, source, ""))]
    if path.endswith(".md"):
        for line, text in enumerate(texts[0][2].split("\n"), 1):
            if len(text) > MAX_COLUMNS and not FORCED.match(text):
                yield line, "width", f"{text.strip()[:60]} -> at most {MAX_COLUMNS} columns"
    elif path.endswith((".py", ".pyi")):
        texts = [(1, "", PYTHON.sub(words_only, ADJACENT.sub(r"\1", source))), *docstrings(source)]
    else:
        texts = [(1, "", C.sub(words_only, ADJACENT.sub(r"\1", source)))]
    for first, kind, text in texts:
        for words in (words for pattern, words in ALLOWED if fnmatch(path, pattern)):
            text = hide(words, text, "Allows")  # passes for a verb
        for line, sentence in itertools.islice(sentences(hide(CODE, text, "CODE")), 1 if kind else None):
            if not kind and len(re.findall(r"(?<!\S)\W*[\w'-]+\W*(?!\S)", sentence)) > MAX_WORDS:
                yield first + line, "long", f"{' '.join(sentence[:60].split())} -> at most {MAX_WORDS} words"
            for rule, hint, pattern in RULES:
                for match in pattern.finditer(sentence) if (rule if rule in ("noun", "verb") else "") == kind else ():
                    context = " ".join(sentence[max(0, match.start() - 30) : match.end() + 30].split())
                    yield first + line + sentence[: match.start()].count("\n"), rule, f"{context} -> {hint}"


def main() -> int:
    """Prints the findings and returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", default=["."], help="files and folders, relative to the root (default: all)"
    )
    parser.add_argument("--root", type=Path, default=HERE.parent, help="checkout to read (default: that of this file)")
    parser.add_argument("--count", action="store_true", help="print the number of findings per rule")
    options = parser.parse_args()
    command = ["git", "-C", options.root, "ls-files", "-co", "--exclude-standard", "--", *options.paths]
    names = sorted(set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()))
    counts: Counter[str] = Counter()
    for name in (x for x in names if re.search(r"^(?!.*third_party/).*\.(md|pyi?|[ch](pp)?)$", x)):
        for line, rule, text in findings(name, (options.root / name).read_text("utf-8")):
            counts[rule] += 1
            if not options.count:
                print(f"{name}:{line}: [{rule}] {text}")
    if options.count:
        print(*(f"{count:6}  {rule}" for rule, count in [*counts.most_common(), ("all", counts.total())]), sep="\n")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
