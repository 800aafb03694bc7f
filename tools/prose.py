"""Lint for plain English in Markdown, comments, docstrings and messages.

Its rules are in prose_rules.txt, its exceptions in prose_allow.txt. Both tables describe their columns.
"""

import argparse
import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
LONG_LINE = re.compile(r"(?!\s*(\||([-*>] |\d+\. )?\S{80})).{101}")  # no table row, no word that needs its own line
FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
CODE = re.compile(r"(?s)(`+).+?\1|\{([^{}]|\{.*?\})*\}|(?<=\])\(\S*?\)|https?:\S+|\w+(/[\w.*-]+)+|\w+\.[a-z]\w+")
STRING = r"""\d'(?=\d)|[a-zA-Z]*(?P<mark>\"{3}|'{3}|["'])(?P<string>(\\.|.)*?)(?P=mark)|\S"""  # 1'000 is C++
PYTHON, C = (re.compile(f"(?s)(?P<comment>{comment})|{STRING}") for comment in ("#[^\n]*", r"//[^\n]*|/\*.*?\*/"))
ADJACENT = re.compile(r'(?<=[^"])"(\s*\n\s*)[rf]?"(?=[^"])')  # strings that the compiler joins
EXEMPT = re.compile(r"(@.*\n)*(@.*(property|fixture)|def (test_|__init__))")
MARKER = re.compile(r"(?m)^[ \t]*(#+:?|/[/*]+[!<]*|\*+/?(?= |$))|\*/$")
BOUNDARY = re.compile(  # the end of a sentence or a table cell, or the start of an item, a heading or a paragraph
    r"(?m)(?<!e\.g)(?<!i\.e)(?<!eq)[.!?][\"')*]*\s+(?=[^a-z\s]|\w+: )|\s*\0\s*|\\n|\Z|"
    r"^(?=[ >]*(([-*+]|#+|\d+\.) |$|[^\n]*\S {2,}\S|[\w`*]+(, [\w`*]+)*: |(Args|Returns|Raises):$))"
)


def table(name: str) -> list[tuple[str, str, re.Pattern[str]]]:
    """Returns the rows of a table. A space in an expression also matches a line break."""
    lines = (HERE / name).read_text("utf-8").splitlines()
    rows = [re.split(" {2,}", line, maxsplit=2) for line in lines if line and not line.startswith("#")]
    return [(first, second, re.compile("(?is)" + words.replace(" ", r"\s+"))) for first, second, words in rows]


RULES, ALLOWED = table("prose_rules.txt"), table("prose_allow.txt")


def hide(words: re.Pattern[str], text: str, name: str) -> str:
    """Returns the text with a name in place of the words; line breaks stay."""
    return words.sub(lambda match: name + "\n" * match[0].count("\n"), text)


def words_only(match: re.Match[str]) -> str:
    """Returns a comment, or a string of at least three words, without its marks; other code becomes a boundary.

    In a string of many lines that is no docstring (code, examples of a command) each line counts as a sentence.
    """
    text, before = match["string"] or "", match.string[: match.start()].rpartition("\n")[2]
    if match["comment"]:
        below = before.strip() and re.match(r"\n( *)[#/]", match.string[match.end() :])  # two comments
        return MARKER.sub("", match["comment"]) + ("\0" if below and len(below[1]) < len(before) else "")
    code = len(match["mark"] or "") == 3 and match.string[: match.start()].rstrip().endswith(("(", ",", "="))
    text = text.replace("\n", "\0\n") if code else text
    return "\0" + (text if text.count(" ") > 1 else "\n" * text.count("\n")) + "\0"


def docstrings(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, rule and text of the docstrings that have to begin in a certain way."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and not EXEMPT.match(ast.unparse(node)):
            yield node.body[0].lineno, "verb" if hasattr(node, "args") else "noun", text


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yields the sentences, headings, items and table cells of a text, each with its line, counted from 0."""
    ends = [boundary.end() for boundary in BOUNDARY.finditer(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        if sentence := text[start:end].strip(" \n\0"):
            yield text.count("\n", 0, text.index(sentence, start)), sentence


def findings(path: str, source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, rule and text of each finding."""
    if path.endswith(".md"):
        prose = hide(FENCE, source, "")
        long_lines = [(line, text) for line, text in enumerate(prose.split("\n"), 1) if LONG_LINE.match(text)]
        yield from ((line, "width", f"{text.strip()[:60]} -> at most 100 columns") for line, text in long_lines)
        prose = prose.replace("|", "\0")  # table cells
    else:
        prose = (PYTHON if ".py" in path else C).sub(words_only, ADJACENT.sub(r"\1", source))
    for first, kind, text in [(1, "", prose), *(docstrings(source) if ".py" in path else ())]:
        for words in (words for pattern, _, words in ALLOWED if fnmatch(path, pattern)):
            text = hide(words, text, "Allows")  # passes for a verb
        for line, sentence in list(sentences(hide(CODE, text, "CODE")))[: 1 if kind else None]:
            for rule, hint, words in RULES:
                for match in words.finditer(sentence) if (rule if rule in ("noun", "verb") else "") == kind else ():
                    context = " ".join(sentence[max(0, match.start() - 30) : match.end() + 30].split())[:90]
                    yield first + line + sentence.count("\n", 0, match.start()), rule, f"{context} -> {hint}"


def main() -> int:
    """Prints the findings and returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=["."], help="files and folders below the root (default all)")
    parser.add_argument("--root", type=Path, default=HERE.parent, help="checkout to read (default that of this file)")
    parser.add_argument("--count", action="store_true", help="print the number of findings per rule")
    options = parser.parse_args()
    command = ["git", "-C", options.root, "ls-files", "-co", "--exclude-standard", "--", *options.paths]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = re.findall(r"(?m)^(?!.*third_party/).*\.(?:md|pyi?|[ch](?:pp)?)$", files)
    sources = {name: (options.root / name).read_text("utf-8") for name in names if (options.root / name).is_file()}
    found = [(name, *finding) for name, source in sources.items() for finding in sorted(findings(name, source))]
    counts = [*Counter(rule for _, _, rule, _ in found).most_common(), ("all", len(found))]
    for name, line, rule, text in found if not options.count else ():
        print(f"{name}:{line}: [{rule}] {text}")
    print(*(f"{count:6}  {rule}" for rule, count in counts if options.count or rule == "all"), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
