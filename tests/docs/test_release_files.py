"""The files around a release agree with the code: version, changelog, citation, workflows, lowest dependencies."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import decond

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
TRANSITIVE = {"click", "pyparsing"}
"""Pinned in constraints-lowest.txt for our dependencies' sake: pyproject.toml does not name them."""


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def project():
    return tomllib.loads(text("pyproject.toml"))


def requirements():
    """Return every requirement that names another package: of the library, its extras and its build."""
    tables = project()
    listed = [*tables["project"]["dependencies"], *tables["build-system"]["requires"]]
    for extra in tables["project"]["optional-dependencies"].values():
        listed += extra
    found = map(Requirement, listed)
    return [requirement for requirement in found if requirement.name != "decond"]


def lower_bound(requirement):
    bounds = [specifier.version for specifier in requirement.specifier if specifier.operator == ">="]
    assert len(bounds) == 1, f"{requirement} needs one lower bound"
    return Version(bounds[0])


def lowest_pins():
    lines = [line for line in text("constraints-lowest.txt").splitlines() if line and not line.startswith("#")]
    pins = {}
    for line in lines:
        name, _, version = line.partition("==")
        assert canonicalize_name(name) not in pins, f"{name} is pinned twice"
        pins[canonicalize_name(name)] = Version(version)
    return pins


def commands(node):
    """Yield what the steps of a workflow run."""
    if isinstance(node, dict):
        if isinstance(node.get("run"), str):
            yield node["run"]
        for value in node.values():
            yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands(value)


def test_the_version_has_one_source():
    tables = project()
    assert tables["project"]["dynamic"] == ["version"]
    assert tables["tool"]["hatch"]["version"]["path"] == "src/decond/__init__.py"


def test_citation_has_the_version():
    assert str(yaml.safe_load(text("CITATION.cff"))["version"]) == decond.__version__


def test_changelog_opens_with_unreleased_and_has_the_version():
    headings = re.findall(r"^## \[(.+?)\](?: - (.+))?$", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    dates = dict(headings[1:])
    assert decond.__version__ in dates
    assert all(re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", date) for date in dates.values()), dates


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_is_valid(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_grant_no_more_than_reading_by_default(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


def test_workflows_call_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z][a-z-]*):", text("Makefile"), re.MULTILINE))
    ran = [run for path in WORKFLOWS for run in commands(yaml.safe_load(path.read_text(encoding="utf-8")))]
    called = {name for run in ran for name in re.findall(r"\bmake ([a-z-]+)", run)}
    assert {"lint", "test", "test-all", "test-lowest", "docs"} <= called
    assert called <= targets


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_lower_bounds_are_the_lowest_pins(requirement):
    assert lowest_pins().get(canonicalize_name(requirement.name)) == lower_bound(requirement)


def test_lowest_pins_are_dependencies():
    named = {canonicalize_name(requirement.name) for requirement in requirements()}
    assert set(lowest_pins()) - TRANSITIVE == named
