"""The tool that runs pages: what it accepts, in which order it runs, and what it says when a page fails."""

import contextlib
import textwrap

import pytest
from PIL import Image, ImageDraw
from run_pages import PageError, check_outputs, check_pictures, main, read_blocks, run_page


@pytest.fixture
def page(tmp_path):
    """Return a function that writes a page into its own documentation folder."""
    docs = tmp_path / "docs"
    docs.mkdir()

    def write(text):
        path = docs / "page.md"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@contextlib.contextmanager
def failure_at(line):
    """Expect that a page is refused, and which of its lines is named."""
    with pytest.raises(PageError) as failure:
        yield
    assert (failure.value.page.name, failure.value.line) == ("page.md", line)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_blocks_know_their_line_their_language_and_their_file(page):
    path = page("""\
        # A page

        ```python title="a.py"
        a = 1
        ```
        - a list
            ```sh
            if true; then
                echo yes
            fi
            ```
        ````text
        ```
        ````
        """)
    found = [(block.line, block.language, block.title, block.code) for block in read_blocks(path)]
    assert found == [
        (4, "python", "a.py", "a = 1\n"),
        (8, "sh", "", "if true; then\n    echo yes\nfi\n"),
        (13, "text", "", "```\n"),
    ]


def test_blocks_run_in_order_in_one_namespace_and_one_folder(page, folder):
    printed = run_page(
        page("""\
        ```toml title="settings/start.toml"
        start = 3
        ```
        ```python
        import tomllib

        start = tomllib.load(open("settings/start.toml", "rb"))["start"]
        print("start", start, file=open("log.txt", "w"))
        ```
        ```sh
        cat log.txt
        command -v decond > /dev/null
        ```
        ```console
        $ false
        ```
        ```python
        from joblib import Parallel, delayed


        def twice(number):
            return 2 * number


        print(Parallel(n_jobs=2)(delayed(twice)(number) for number in [start, 4]))
        ```
        """),
        folder,
    )
    assert list(printed.values()) == ["", "start 3\n", "[6, 8]\n"]


def test_the_page_finds_no_name_that_it_did_not_make(page, folder):
    with failure_at(2):
        run_page(page("```python\nsys.path\n```\n"), folder)


def test_an_error_names_the_page_the_line_and_the_code(page, folder):
    with pytest.raises(PageError) as failure:
        run_page(page("# Title\n\n```python\na = 1\n1 / (a - 1)\n```\n"), folder)
    assert failure.value.line == 5
    assert "1 / (a - 1)" in str(failure.value)  # from the traceback
    assert "ZeroDivisionError" in str(failure.value)


def test_a_command_that_fails_fails_the_page(page, folder):
    with failure_at(4):
        run_page(page("# Title\n\n```sh\nfalse | true\ntouch after\n```\n"), folder)
    assert not (folder / "after").exists()


@pytest.mark.parametrize("fence", ["```", "```py", "~~~", "```python3"])
def test_a_block_of_another_kind_is_refused(page, folder, fence):
    with failure_at(2):
        run_page(page(f"{fence}\n1\n{fence[:3]}\n"), folder)


def test_a_block_that_is_never_closed_is_refused(page, folder):
    with failure_at(1):
        run_page(page("```python\n1\n"), folder)


PICTURE_PAGE = """\
![A ring](images/page/ring.png)
```python
from PIL import Image, ImageDraw

image = Image.new("RGB", (800, 400), "white")
ImageDraw.Draw(image).ellipse((80, 80, 320, 320), outline="black", width=8)
image.save("ring.png")
```
"""


def picture(path, left=80):
    image = Image.new("RGB", (800, 400), "white")
    ImageDraw.Draw(image).ellipse((left, 80, left + 240, 320), outline="black", width=8)
    image.save(path)


def test_pictures_are_kept_on_request_only(page):
    path = page(PICTURE_PAGE)
    assert main([str(path)]) == 1
    assert not (path.parent / "images").exists()
    assert main([str(path), "--pictures"]) == 0
    assert (path.parent / "images" / "page" / "ring.png").is_file()
    assert main([str(path)]) == 0


def test_a_shown_picture_is_kept_and_drawn(page, folder):
    path = page(PICTURE_PAGE)
    kept = path.parent / "images" / "page" / "ring.png"
    picture(folder / "ring.png")
    with failure_at(None):  # not kept yet
        check_pictures(path, folder)
    kept.parent.mkdir(parents=True)
    picture(kept, left=110)  # as from another machine
    check_pictures(path, folder)
    Image.new("RGB", (800, 400), "white").save(folder / "ring.png")
    with failure_at(None):  # nothing is drawn
        check_pictures(path, folder)
    (folder / "ring.png").unlink()
    with failure_at(None):
        check_pictures(path, folder)


@pytest.mark.parametrize(("right", "wrong"), [("images/page", "images/elsewhere"), ("A ring", " ")])
def test_a_page_shows_its_own_pictures_with_a_description(page, folder, right, wrong):
    picture(folder / "ring.png")
    with failure_at(None):
        check_pictures(page(PICTURE_PAGE.replace(right, wrong)), folder)


PRINTED = """\
mean    0.25 of 1,500
killed, with 41
std -1e-3
┌────┐
the end
"""
SHOWN = PRINTED.replace("    ", " ")


def shown_after(page, shown):
    """Return the result of comparing a page's output with what its code printed."""
    path = page(f"```python\nprint(1)\n```\n```text\n{shown}```\n")
    check_outputs(path, {2: PRINTED})


@pytest.mark.parametrize(
    "shown",
    [
        SHOWN,
        SHOWN.replace("0.25 of 1,500", "0.31 of 2900"),  # within a factor of 2
        SHOWN.replace("-1e-3", "0.08"),  # within 0.1
        SHOWN.replace("with 41", "with …"),
        SHOWN.replace("┌────┐", "\n┌───┐\n"),
        "…\nstd −1e-3\n…\nthe end\n",
        "mean 0.25 of 1,500\n…\n",
        "…\n",
    ],
)
def test_shown_output_may_leave_out_what_it_marks_and_differ_as_machines_do(page, shown):
    shown_after(page, shown)


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (SHOWN.replace("mean", "median"), 5),
        (SHOWN.replace("0.25", "0.6"), 5),
        (SHOWN.replace("0.25", "-0.25"), 5),
        (SHOWN.replace("1,500", "700"), 5),
        (SHOWN.replace("with 41", "with 41 42"), 6),
        (SHOWN.replace("killed, with 41\n", ""), 6),
        (SHOWN.replace("the end\n", ""), 5),
        ("the end\n…\nstd -1e-3\n", 5),
        ("…\nthe end\n…\nstd -1e-3\n", 8),
        ("…\nstd -1e-3\n…\nstd -1e-3\n…\n", 8),
        (SHOWN + "more\n", 10),
        ("", 5),
    ],
)
def test_other_output_is_refused(page, shown, line):
    with failure_at(line):
        shown_after(page, shown)


def test_output_that_is_not_run_is_not_compared(page):
    shown_after(page, "variance 2  # not run here\n")


OUTPUT = """\
```python
print("mean    0.25\\nstd 1e-3\\nkilled, with 41")
```
```text
{}
```
"""


def test_outputs_can_be_written_into_the_page(page, capsys):
    path = page("before\n" + OUTPUT.format("mean 9\nmore") + "after\n```sh\necho x\n```\n```text\n```\n")
    assert main([str(path)]) == 1
    assert "does not print this line" in capsys.readouterr().err
    assert main([str(path), "--outputs"]) == 0
    assert path.read_text() == "before\n" + OUTPUT.format("mean    0.25\nstd 1e-3\nkilled, with 41") + (
        "after\n```sh\necho x\n```\n```text\nx\n```\n"
    )
    assert main([str(path)]) == 0
