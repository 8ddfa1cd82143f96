"""A request can be followed: few files, no deep chain of calls (the README's question, without a model)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUESTION = "Where was Goethe's unmarried partner born?"
MOST_FILES, MOST_DEPTH = 78, 27  # a third of the files are the semantic parser; a phase is a file or two

# Runs in a process of its own, so that nothing is opened or cached before the question is asked.
TRACER = """
import sys, threading
from collections import defaultdict
from pathlib import Path
from triplewise.graphs import Context, build_graph

root, question = Path(sys.argv[1]), sys.argv[2]
layers = ("tools", "guidelines", "nodes", "graphs")
files, deepest, stacks, paths = set(), [], defaultdict(list), {}

def file_of(code):
    if code not in paths:
        path = Path(code.co_filename).resolve()
        ours = path.is_relative_to(root) and path.relative_to(root).parts[0] in layers
        paths[code] = str(path.relative_to(root)) if ours else ""
    return paths[code]

def profile(frame, event, argument):
    global deepest
    if event not in ("call", "return") or not (file := file_of(frame.f_code)):
        return
    stack = stacks[threading.get_ident()]
    if event == "call":
        stack.append(f"{file}: {frame.f_code.co_qualname}")
        if frame.f_code.co_name != "<module>":
            files.add(file)
        if len(stack) > len(deepest):
            deepest = list(stack)
    elif stack:
        stack.pop()

graph = build_graph("agent")
threading.setprofile(profile)
sys.setprofile(profile)
state = graph.invoke({"question": question, "entities": {}}, context=Context(kg="demo", model="embedded"))
sys.setprofile(None)
assert state["answer"].labels == ("Offenbach am Main",), state["answer"]
print("\\n".join(sorted(files)), "\\n".join(deepest), sep="\\n\\n")
"""


@pytest.fixture(scope="module")
def request_path() -> tuple[list[str], list[str]]:
    """The files that the question travels, and its deepest chain of calls inside the project."""
    done = subprocess.run(
        [sys.executable, "-c", TRACER, str(ROOT), QUESTION], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    files, _, chain = done.stdout.strip().partition("\n\n")
    return files.splitlines(), chain.splitlines()


def test_few_files(request_path: tuple[list[str], list[str]]) -> None:
    files, _ = request_path
    assert len(files) <= MOST_FILES, f"{len(files)} files:\n" + "\n".join(files)


def test_no_deep_chain(request_path: tuple[list[str], list[str]]) -> None:
    _, chain = request_path
    assert len(chain) <= MOST_DEPTH, f"{len(chain)} calls deep:\n" + "\n".join(chain)


def test_what_the_question_does_not_need_is_not_imported() -> None:
    heavy = ("sqlalchemy", "sqlglot", "duckdb", "pandas", "openai", "torch")
    code = f"import sys, triplewise.graphs.build; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
