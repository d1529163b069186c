"""Run the code on pages of the documentation, so that a page can only show what its code does.

    python docs/run_pages.py docs/index.md              # print what the blocks print
    python docs/run_pages.py docs/index.md --pictures   # and keep the pictures that the page shows
    python docs/run_pages.py docs/index.md --outputs    # and put what blocks print into the text blocks after them

Kinds of fenced blocks:

- `python`: run, in order, in one fresh process a page, in an empty folder;
- `sh`: run by bash in between, in the same folder, with `decond` on the PATH;
- any language with `title="file"`: written to that file, not run;
- `text`: shown only. Right after a block that runs it is its output, as a whole or in part (`…` for what is left
  out), unless it says "not run here"; words are compared, and not the numbers, which differ between machines;
- `console`: a transcript of what cannot run here.
"""

import argparse
import itertools
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
RUN, SHOWN = ("python", "sh"), ("text", "console")

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The matrices of pages are small, and threads of BLAS would wait for each other on a busy machine."""

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
TITLE = re.compile(r'title="([^"]*)"')
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)")


MARK = "\x1e"
"""Goes before the output of each block, with the line of the block."""


class PageError(Exception):
    """A page cannot be read, or its code fails. The message names the page and the line."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is the number of its first line of code."""

    page: Path
    line: int
    language: str
    title: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.title

    @property
    def wrong(self) -> str:
        """What is wrong with its kind, or nothing."""
        if self.language and (self.title or self.language in RUN + SHOWN):
            return ""
        kinds = ", ".join(RUN + SHOWN)
        return f'{self.place}: a block of {self.language or "no language"}; use {kinds}, or any with title="file"'


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks, opened = [], None
    for number, line in enumerate(lines, start=1):
        match = FENCE.match(line)
        if opened is None:
            opened = (number, match) if match else None
        elif match and match["fence"].startswith(opened[1]["fence"]) and not match["info"].strip():
            language, _, rest = opened[1]["info"].strip().partition(" ")
            title = TITLE.search(rest)
            code = textwrap.dedent("".join(f"{text}\n" for text in lines[opened[0] : number - 1]))
            blocks.append(Block(page, opened[0] + 1, language, title[1] if title else "", code))
            opened = None
    if opened:
        raise PageError(f"{page}:{opened[0]}: this block is never closed")
    return blocks


def shown_pictures(page: Path) -> list[Path]:
    """Return the picture files that a page shows."""
    return [(page.parent / name).resolve() for name in PICTURE.findall(page.read_text(encoding="utf-8"))]


def run_page(page: Path, folder: Path, *, timeout: float | None = None) -> dict[int, str]:
    """Run a page in an empty folder; return what each block printed, by its line.

    Raises:
        PageError: If a block has no known kind, or fails.
    """
    page = page.resolve()
    wrong = [block.wrong for block in read_blocks(page) if block.wrong]
    if wrong:
        raise PageError("\n".join(wrong))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {
        **ONE_THREAD,
        **os.environ,
        "PATH": path,
        "MPLBACKEND": "Agg",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "100",
    }
    # A process started with -c has no file that worker processes would try to import; no name is left to the page.
    starter = f'__import__("sys").path.append({str(DOCS)!r}); __import__("run_pages").run_blocks({str(page)!r})'
    result = subprocess.run(
        [sys.executable, "-c", starter],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    if result.returncode:
        output = re.sub(f"{MARK}.*\n", "", result.stdout)
        raise PageError(f"{page} failed.\n{output}")
    pieces = (piece.partition("\n") for piece in result.stdout.split(MARK)[1:])
    return {int(line): text for line, _, text in pieces}


def run_blocks(name: str) -> None:
    """Run the blocks of a page in this process and folder. Errors show the page's own lines."""
    page = Path(name)
    text = page.read_text(encoding="utf-8")
    linecache.cache[page.name] = (len(text), None, text.splitlines(keepends=True), page.name)
    namespace = vars(sys.modules["__main__"])
    for block in read_blocks(page):
        if block.runs:
            print(f"{MARK}{block.line}", flush=True)
        if block.title:
            target = Path(block.title)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, page.name, "exec"), namespace)
        elif block.language == "sh":
            code = subprocess.run(["bash", "-eo", "pipefail", "-c", block.code]).returncode
            if code:
                sys.exit(f"{block.place}: a command failed with exit code {code}")


def check_pictures(page: Path, folder: Path) -> list[Path]:
    """Return the pictures that the page shows; raise unless its code wrote each of them into the folder."""
    page = page.resolve()
    home = DOCS / "images" / page.stem
    for shown in shown_pictures(page):
        if shown.parent != home:
            raise PageError(f"{page} shows {shown}; pictures of this page belong in {home}")
        if not (folder / shown.name).is_file():
            raise PageError(f"{page} shows {shown.name}, but its code does not write it")
    return shown_pictures(page)


def shown_outputs(page: Path) -> list[tuple[Block, Block]]:
    """Return each block that runs and has its output right after it, with the block of this output."""
    blocks = read_blocks(page)
    return [
        (block, output)
        for block, output in itertools.pairwise(blocks)
        if block.runs and output.language == "text" and "not run here" not in output.code
    ]


def check_outputs(page: Path, printed: dict[int, str]) -> None:
    """Raise if a page shows a line of output that was not printed, apart from numbers and blanks."""
    for block, output in shown_outputs(page):
        known = {_words(line) for line in printed[block.line].splitlines()}
        for line in output.code.splitlines():
            if _words(line) not in known and line.strip() not in ("", "…"):
                raise PageError(f"{output.place}: the code above does not print this line:\n{line}")


def _words(line: str) -> str:
    return " ".join(NUMBER.sub("0", line).split())


def write_outputs(page: Path, printed: dict[int, str]) -> None:
    """Put into the page what its code printed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block, output in reversed(shown_outputs(page)):
        start = output.line - 1
        new = [line.rstrip() for line in printed[block.line].strip("\n").splitlines()]
        lines[start : start + len(output.code.splitlines())] = new
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the code on pages of the documentation.")
    parser.add_argument("pages", nargs="+", type=Path, help="Markdown files")
    parser.add_argument("--pictures", action="store_true", help="copy shown pictures to docs/images/PAGE/")
    parser.add_argument(
        "--outputs", action="store_true", help="put what blocks print into the text blocks after them"
    )
    options = parser.parse_args(arguments)
    for page in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            try:
                printed = run_page(page, Path(folder))
                print(*printed.values(), sep="", end="")
                (write_outputs if options.outputs else check_outputs)(page, printed)
                pictures = check_pictures(page, Path(folder))
            except PageError as error:
                print(error, file=sys.stderr)
                return 1
            for picture in pictures if options.pictures else ():
                picture.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(folder) / picture.name, picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
