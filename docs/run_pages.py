"""Run the code on pages of the documentation, so that a page can only show what its code does.

    python docs/run_pages.py docs/index.md              # print what the blocks print
    python docs/run_pages.py docs/index.md --pictures   # and keep the pictures that the page shows
    python docs/run_pages.py docs/index.md --outputs    # and put what blocks print into the text blocks after them

Kinds of fenced blocks:

- `python`: run, in order, in one fresh process a page, in an empty folder;
- `sh`: run by bash in between, in the same folder, with `decond` on the PATH;
- any language with `title="file"`: written to that file, not run;
- `text`: shown only. Right after a block that runs it is its output, unless it says "not run here". Words are
  compared, and numbers roughly, as they differ between machines. A line with only `…` stands for lines left out, a
  `…` within a line for anything, and the numbers of such a line are not compared;
- `console`: a transcript of what cannot run here.

Each picture has a description for those who cannot see it, and the code of its page draws a picture of that name.
Pixels are not compared: they differ between machines.
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
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN, SHOWN = ("python", "sh"), ("text", "console")

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""The matrices of pages are small, and threads of BLAS would wait for each other on a busy machine."""

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
TITLE = re.compile(r'title="([^"]*)"')
NUMBER = re.compile(r"[-+−]?\d+(?:,\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
RULE = re.compile(r"([─━═-])\1+")

GAP = "…"
"""Stands for output that is left out."""

FACTOR, DISTANCE = 2.0, 0.1
"""Numbers that differ less, in one way or the other, may be of two machines."""

MARK = "\x1e"
"""Goes before the output of each block, with the line of the block."""


class PageError(Exception):
    """A page cannot be read, its code fails, or it shows something else than its code does.

    Attributes:
        page: The file.
        line: The line of the page that is wrong; None if it is not one line.
    """

    def __init__(self, page: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{page}:{line}: {problem}" if line else f"{page}: {problem}")
        self.page, self.line = page, line


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is the number of its first line of code."""

    page: Path
    line: int
    language: str
    title: str
    code: str

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.title

    def check_kind(self) -> None:
        """Raise unless the block has a known language or a title."""
        if not self.language or not (self.title or self.language in RUN + SHOWN):
            kinds = ", ".join(RUN + SHOWN)
            given = self.language or "no language"
            raise PageError(
                self.page,
                self.line,
                f'a block of {given}; use {kinds}, or any with title="file"',
            )


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks, opened = [], None
    for number, line in enumerate(lines, start=1):
        match = FENCE.match(line)
        if opened is None:
            opened = (number, match) if match else None
        elif (
            match
            and match["fence"].startswith(opened[1]["fence"])
            and not match["info"].strip()
        ):
            language, _, rest = opened[1]["info"].strip().partition(" ")
            title = TITLE.search(rest)
            code = textwrap.dedent(
                "".join(f"{text}\n" for text in lines[opened[0] : number - 1])
            )
            blocks.append(
                Block(page, opened[0] + 1, language, title[1] if title else "", code)
            )
            opened = None
    if opened:
        raise PageError(page, opened[0], "this block is never closed")
    return blocks


def shown_pictures(page: Path) -> list[Path]:
    """Return the picture files that a page shows."""
    found = PICTURE.findall(page.read_text(encoding="utf-8"))
    return [(page.parent / name).resolve() for _, name in found]


def run_page(
    page: Path, folder: Path, *, timeout: float | None = None
) -> dict[int, str]:
    """Run a page in an empty folder; return what each block printed, by its line.

    Raises:
        PageError: If a block has no known kind, or fails.
    """
    page = page.resolve()
    for block in read_blocks(page):
        block.check_kind()
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )
    environment = {
        **ONE_THREAD,
        **os.environ,
        "PATH": path,
        "MPLBACKEND": "Agg",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "100",
    }
    # A process started with -c has no file that worker processes would try to import; no name is left to the page.
    here = str(Path(__file__).resolve().parent)
    starter = f'__import__("sys").path.append({here!r}); __import__("run_pages").run_blocks({str(page)!r})'
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
        raise PageError(page, _failed_line(output), f"its code failed.\n{output}")
    pieces = (piece.partition("\n") for piece in result.stdout.split(MARK)[1:])
    return {int(line): text for line, _, text in pieces}


def run_blocks(name: str) -> None:
    """Run the blocks of a page in this process and folder. Errors show the page's own lines."""
    page = Path(name)
    text = page.read_text(encoding="utf-8")
    linecache.cache[page.name] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        page.name,
    )
    namespace = vars(sys.modules["__main__"])
    for block in read_blocks(page):
        if block.runs:
            print(f"{MARK}{block.line}", flush=True)
        if block.title:
            target = Path(block.title)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            try:
                exec(
                    compile("\n" * (block.line - 1) + block.code, page.name, "exec"),
                    namespace,
                )
            except Exception:
                traceback.print_exc()  # the interpreter's own report would not find the page's lines
                sys.exit(1)
        elif block.language == "sh":
            code = subprocess.run(
                ["bash", "-eo", "pipefail", "-c", block.code]
            ).returncode
            if code:
                sys.exit(
                    f'File "{page.name}", line {block.line}: a command failed with exit code {code}'
                )


def _failed_line(output: str) -> int | None:
    """Return the last line of a page that an error message names: its own, not that of a function it called."""
    named = re.findall(r'File "[^"/]*\.md", line (\d+)', output)
    return int(named[-1]) if named else None


def drawn_pictures(page: Path, folder: Path) -> list[tuple[Path, Path]]:
    """Return each picture that the page shows, with the one that its code wrote into the folder.

    Raises:
        PageError: If a picture has no description, belongs to another page, was not written, or is empty.
    """
    page = page.resolve()
    for description, name in PICTURE.findall(page.read_text(encoding="utf-8")):
        if not description.strip():
            raise PageError(
                page,
                None,
                f"{name} has no description; say what is to be seen: ![…]({name})",
            )
    for shown in shown_pictures(page):
        if shown.parent.parts[-2:] != ("images", page.stem):
            raise PageError(
                page,
                None,
                f"{shown} is a picture of another page; put it into images/{page.stem}",
            )
        if not (folder / shown.name).is_file():
            raise PageError(
                page,
                None,
                f"the page shows {shown.name}, but its code does not write it",
            )
        if _is_blank(folder / shown.name):
            raise PageError(
                page, None, f"its code writes {shown.name}, but nothing is drawn in it"
            )
    return [(shown, folder / shown.name) for shown in shown_pictures(page)]


def _is_blank(picture: Path) -> bool:
    """Return whether a picture has one color only; it is decoded in full, so that a damaged file is an error."""
    from PIL import Image

    with Image.open(picture) as image:
        return all(low == high for low, high in image.convert("RGB").getextrema())


def check_pictures(page: Path, folder: Path) -> None:
    """Raise unless each picture that the page shows is there, and its code draws one of that name."""
    for kept, _ in drawn_pictures(page, folder):
        if not kept.is_file():
            raise PageError(
                page,
                None,
                f"{kept.name} is missing; run python docs/run_pages.py {page} --pictures",
            )


def write_pictures(page: Path, folder: Path) -> None:
    """Keep the pictures that the page shows and its code wrote into the folder."""
    for kept, drawn in drawn_pictures(page, folder):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(drawn, kept)


def shown_outputs(page: Path) -> list[tuple[Block, Block]]:
    """Return each block that runs and has its output right after it, with the block of this output."""
    blocks = read_blocks(page)
    return [
        (block, output)
        for block, output in itertools.pairwise(blocks)
        if block.runs
        and output.language == "text"
        and "not run here" not in output.code
    ]


def check_outputs(page: Path, printed: dict[int, str]) -> None:
    """Raise if a page shows other lines than were printed, apart from blanks, small changes of numbers, and gaps."""
    for block, output in shown_outputs(page):
        _lines_shown(output, printed[block.line], _alike)


def _lines_shown(
    output: Block, printed: str, same: Callable[[str, str], bool]
) -> list[str]:
    """Return the printed line for each shown one, gaps and blank lines as they are; raise where there is none."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    ways: dict[int, list[str]] = {
        0: []
    }  # how many printed lines are accounted for, and as what
    for number, shown in enumerate(output.code.splitlines(), start=output.line):
        if shown.strip() == GAP:
            first = min(ways)
            ways = {end: [*ways[first], shown] for end in range(first, len(lines) + 1)}
        elif shown.strip():
            here = {at: lines[at] for at in ways if at < len(lines)}
            ways = {
                at + 1: [*ways[at], line]
                for at, line in here.items()
                if same(shown, line)
            }
            if not ways:
                instead = (
                    f"\nbut:\n{next(iter(here.values()))}" if len(here) == 1 else ""
                )
                raise PageError(
                    output.page,
                    number,
                    f"the code above does not print this line:\n{shown}{instead}",
                )
        else:
            ways = {at: [*found, shown] for at, found in ways.items()}
    if len(lines) not in ways:
        more = lines[max(ways)]
        raise PageError(
            output.page,
            output.line,
            f"the code above prints another line; show it, or put {GAP} for it:\n{more}",
        )
    return ways[len(lines)]


def _alike(shown: str, printed: str) -> bool:
    """Tell whether a line has the words that were printed, and about their numbers unless it has a gap."""
    if GAP in shown or not _same_words(shown, printed):
        return _same_words(shown, printed)
    numbers = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_close(_number(one), _number(other)) for one, other in numbers)


def _same_words(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(_words(piece)) for piece in shown.split(GAP))
    return re.fullmatch(pattern, _words(printed)) is not None


def _words(line: str) -> str:
    return " ".join(RULE.sub(r"\1", NUMBER.sub("0", line)).split())


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def _close(one: float, other: float) -> bool:
    low, high = sorted((abs(one), abs(other)))
    return abs(one - other) <= DISTANCE or (one * other > 0.0 and high <= FACTOR * low)


def write_outputs(page: Path, printed: dict[int, str]) -> None:
    """Put into the page what its code printed. Gaps remain where the words around them are still printed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block, output in reversed(shown_outputs(page)):
        start = output.line - 1
        shown = output.code.splitlines()
        lines[start : start + len(shown)] = _renewed(output, printed[block.line])
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _renewed(output: Block, printed: str) -> list[str]:
    everything = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if GAP not in output.code:
        return everything
    try:
        found = _lines_shown(output, printed, _same_words)
    except PageError:
        return everything
    return [
        old if GAP in old else new
        for old, new in zip(output.code.splitlines(), found, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Run the code on pages of the documentation."
    )
    parser.add_argument("pages", nargs="+", type=Path, help="Markdown files")
    parser.add_argument(
        "--pictures",
        action="store_true",
        help="copy shown pictures to docs/images/PAGE/",
    )
    parser.add_argument(
        "--outputs",
        action="store_true",
        help="put what blocks print into the text blocks after them",
    )
    options = parser.parse_args(arguments)
    for page in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            try:
                printed = run_page(page, Path(folder))
                print(*printed.values(), sep="", end="")
                (write_outputs if options.outputs else check_outputs)(page, printed)
                (write_pictures if options.pictures else check_pictures)(
                    page, Path(folder)
                )
            except PageError as error:
                print(error, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
