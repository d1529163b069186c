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

Each picture has words for those who cannot see it, and looks like the one that the code draws now.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
RUN, SHOWN = ("python", "sh"), ("text", "console")

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
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

THUMBNAIL, SHADES = 16, 12
"""Pictures are compared in this many cells a side, each of which may differ by this many of 255 shades."""

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
    found = PICTURE.findall(page.read_text(encoding="utf-8"))
    return [(page.parent / name).resolve() for _, name in found]


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


def drawn_pictures(page: Path, folder: Path) -> list[tuple[Path, Path]]:
    """Return each picture that the page shows, with the one that its code wrote into the folder.

    Raises:
        PageError: If a picture has no words, belongs to another page, or was not written.
    """
    page = page.resolve()
    home = DOCS / "images" / page.stem
    for words, name in PICTURE.findall(page.read_text(encoding="utf-8")):
        if not words.strip():
            raise PageError(f"{page} shows {name} without words; say what is to be seen: ![…]({name})")
    for shown in shown_pictures(page):
        if shown.parent != home:
            raise PageError(f"{page} shows {shown}; pictures of this page belong in {home}")
        if not (folder / shown.name).is_file():
            raise PageError(f"{page} shows {shown.name}, but its code does not write it")
    return [(shown, folder / shown.name) for shown in shown_pictures(page)]


def check_pictures(page: Path, folder: Path) -> None:
    """Raise unless each picture that the page shows looks like the one that its code wrote into the folder."""
    for kept, drawn in drawn_pictures(page, folder):
        difference = picture_difference(kept, drawn) if kept.is_file() else "there is none"
        if difference:
            raise PageError(
                f"{kept} is not what the code of {page} draws now ({difference}). "
                f"Look at it, then keep it: python docs/run_pages.py {page} --pictures"
            )


def picture_difference(kept: Path, drawn: Path) -> str:
    """Return how two pictures differ, seen from afar, or nothing."""
    from PIL import Image, ImageChops

    with Image.open(kept) as one, Image.open(drawn) as other:
        if one.size != other.size:
            return f"of size {one.size}, not {other.size}"
        small = [image.convert("L").resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX) for image in (one, other)]
    worst = max(ImageChops.difference(*small).tobytes())
    return f"a part differs by {worst} of 255 shades" if worst > SHADES else ""


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
        if block.runs and output.language == "text" and "not run here" not in output.code
    ]


def check_outputs(page: Path, printed: dict[int, str]) -> None:
    """Raise if a page shows other lines than were printed, apart from blanks, small changes of numbers, and gaps."""
    for block, output in shown_outputs(page):
        _lines_shown(output, printed[block.line], _alike)


def _lines_shown(output: Block, printed: str, same: Callable[[str, str], bool]) -> list[str]:
    """Return the printed line for each shown one, gaps and blank lines as they are; raise where there is none."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    ways: dict[int, list[str]] = {0: []}  # how many printed lines are accounted for, and as what
    for number, shown in enumerate(output.code.splitlines(), start=output.line):
        if shown.strip() == GAP:
            first = min(ways)
            ways = {end: [*ways[first], shown] for end in range(first, len(lines) + 1)}
        elif shown.strip():
            here = {at: lines[at] for at in ways if at < len(lines)}
            ways = {at + 1: [*ways[at], line] for at, line in here.items() if same(shown, line)}
            if not ways:
                instead = f"\nbut:\n{next(iter(here.values()))}" if len(here) == 1 else ""
                raise PageError(f"{output.page}:{number}: the code above does not print this line:\n{shown}{instead}")
        else:
            ways = {at: [*found, shown] for at, found in ways.items()}
    if len(lines) not in ways:
        more = lines[max(ways)]
        raise PageError(f"{output.place}: the code above prints another line; show it, or put {GAP} for it:\n{more}")
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
    return [old if GAP in old else new for old, new in zip(output.code.splitlines(), found, strict=True)]


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
                (write_pictures if options.pictures else check_pictures)(page, Path(folder))
            except PageError as error:
                print(error, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
