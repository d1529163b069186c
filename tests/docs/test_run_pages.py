"""The tool that runs pages: what it accepts, in which order it runs, and what it says when a page fails."""

import textwrap

import pytest
import run_pages
from run_pages import PageError, check_outputs, check_pictures, main, read_blocks, run_page


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Return a function that writes a page into its own documentation folder."""
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(run_pages, "DOCS", docs)
    (docs / "run_pages.py").symlink_to(run_pages.__file__)

    def write(text):
        path = docs / "page.md"
        path.write_text(textwrap.dedent(text))
        return path

    return write


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
    with pytest.raises(PageError, match="NameError: name 'sys'"):
        run_page(page("```python\nsys.path\n```\n"), folder)


def test_an_error_names_the_page_the_line_and_the_code(page, folder):
    with pytest.raises(PageError) as failure:
        run_page(page("# Title\n\n```python\na = 1\n1 / (a - 1)\n```\n"), folder)
    assert 'File "page.md", line 5' in str(failure.value)
    assert "1 / (a - 1)" in str(failure.value)
    assert "ZeroDivisionError" in str(failure.value)


def test_a_command_that_fails_fails_the_page(page, folder):
    with pytest.raises(PageError, match=r"page\.md:4: a command failed with exit code 1"):
        run_page(page("# Title\n\n```sh\nfalse | true\ntouch after\n```\n"), folder)
    assert not (folder / "after").exists()


@pytest.mark.parametrize("fence", ["```", "```py", "~~~", "```python3"])
def test_a_block_of_another_kind_is_refused(page, folder, fence):
    with pytest.raises(PageError, match=r"page\.md:2: a block of .*; use python, sh, text, console"):
        run_page(page(f"{fence}\n1\n{fence[:3]}\n"), folder)


def test_a_block_that_is_never_closed_is_refused(page, folder):
    with pytest.raises(PageError, match=r"page\.md:1: this block is never closed"):
        run_page(page("```python\n1\n"), folder)


def test_shown_pictures_are_those_that_the_code_wrote(page, folder):
    text = '![A curve](images/page/curve.png)\n```python\nopen("curve.png", "w").write("new")\n```\n'
    path = page(text)
    assert main([str(path)]) == 0
    assert not (path.parent / "images").exists()
    assert main([str(path), "--pictures"]) == 0
    assert (path.parent / "images" / "page" / "curve.png").read_text() == "new"
    with pytest.raises(PageError, match=r"shows other\.png, but its code does not write it"):
        check_pictures(page(text.replace("page/curve", "page/other")), folder)
    with pytest.raises(PageError, match="pictures of this page belong in"):
        check_pictures(page(text.replace("images/page", "images/elsewhere")), folder)


OUTPUT = """\
```python
print("mean    0.25\\nstd 1e-3")
```
```text
mean 0.31
{}
```
"""


def test_shown_output_is_what_was_printed_up_to_numbers(page, folder):
    path = page(OUTPUT.format("…"))
    printed = run_page(path, folder)
    check_outputs(path, printed)
    check_outputs(page(OUTPUT.format("std 2")), printed)
    with pytest.raises(PageError, match=r"page\.md:5: the code above does not print this line:\nvariance 2"):
        check_outputs(page(OUTPUT.format("variance 2")), printed)
    check_outputs(page(OUTPUT.format("variance 2  # not run here")), printed)


def test_outputs_can_be_written_into_the_page(page, capsys):
    path = page("before\n" + OUTPUT.format("variance 2\nmore") + "after\n```sh\necho x\n```\n```text\n```\n")
    assert main([str(path)]) == 1
    assert "does not print this line" in capsys.readouterr().err
    assert main([str(path), "--outputs"]) == 0
    assert path.read_text() == "before\n" + OUTPUT.format("std 1e-3").replace("mean 0.31", "mean    0.25") + (
        "after\n```sh\necho x\n```\n```text\nx\n```\n"
    )
