"""Checks of the files that set the project up: each takes texts and returns a list of problems."""

import re
import tomllib
from collections.abc import Iterable

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

TORCH = "2.13.0"
ON_CONDA = {"pytorch": "torch", "pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}  # names that differ from pip's


def direct_requirements(pyproject: str) -> list[Requirement]:
    """What the project asks for itself, development included."""
    project = tomllib.loads(pyproject)["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [Requirement(line) for line in lines]


def pins(constraints: str) -> dict[str, list[Requirement]]:
    """The lines of a constraints file by package (several if they have different markers)."""
    found: dict[str, list[Requirement]] = {}
    for line in constraints.splitlines():
        if line := line.split("#")[0].strip():
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def exact_version(requirement: Requirement) -> Version | None:
    """The version of `name==version`; None for any other form."""
    match = re.fullmatch(r"==([^,*+]+)", str(requirement.specifier))
    return Version(match[1]) if match and not requirement.url else None


def constraints_problems(constraints: str, pyproject: str) -> list[str]:
    """Lines `name==version`, sorted, covering each direct dependency within its range."""
    try:
        pinned = pins(constraints)
    except ValueError as error:
        return [f"unreadable line: {error}"]
    loose = [name for name, lines in pinned.items() if None in map(exact_version, lines)]
    problems = [f"{name}: not of the form name==version" for name in loose]
    if list(pinned) != sorted(pinned):
        problems.append("lines are not sorted by name")
    own = canonicalize_name(tomllib.loads(pyproject)["project"]["name"])
    if own in pinned:
        problems.append(f"{own}: is the project itself")
    for requirement in direct_requirements(pyproject):
        lines = pinned.get(canonicalize_name(requirement.name))
        if not lines:
            problems.append(f"{requirement.name}: is required but has no line")
        problems += [
            f"{line}: is outside the range {requirement}"
            for line in lines or ()
            if (version := exact_version(line)) and not requirement.specifier.contains(version, prereleases=True)
        ]
    if [str(line) for line in pinned.get("torch", ())] != [f"torch=={TORCH}"]:
        problems.append(f"torch: want torch=={TORCH}")
    return problems


def environment_problems(environment: str, pyproject: str) -> list[str]:
    """What conda, pip or repo2docker would trip over in environment.yml, as far as it shows without them."""
    try:
        tree = yaml.safe_load(environment)
    except yaml.YAMLError as error:
        return [f"not YAML: {error}"]
    kinds = {"name": str, "channels": list, "dependencies": list}
    wrong = [key for key, kind in kinds.items() if not isinstance(tree.get(key), kind)]
    problems = [f"{key}: expected a {kinds[key].__name__}" for key in wrong]
    problems += [f"{key}: unknown key" for key in tree if key not in kinds]
    if problems:
        return problems
    conda = [entry for entry in tree["dependencies"] if isinstance(entry, str)]
    tables = [entry for entry in tree["dependencies"] if not isinstance(entry, str)]
    if len(tables) != 1 or list(tables[0]) != ["pip"] or not isinstance(tables[0]["pip"], list):
        return ["dependencies: expected one pip list"]
    return conda_problems(conda, pyproject) + pip_problems(tables[0]["pip"], pyproject)


def conda_problems(specs: Iterable[str], pyproject: str) -> list[str]:
    """The part of environment.yml that conda itself installs."""
    problems, named = [], {}
    for spec in specs:
        if match := re.fullmatch(r"([a-z0-9_.-]+)((?:[<>=!~]=?|=)[\w.*]+(?:,[<>=!~]=?[\w.*]+)*)?", spec):
            named[match[1]] = match[2] or ""
        else:
            problems.append(f"{spec!r}: not a package with versions")
    python = re.fullmatch(r"=(\d+\.\d+)", named.get("python", ""))
    if not python:  # the only form that repo2docker reads
        problems.append(f"python: want python=X.Y, got python{named.get('python', ' missing')}")
    elif not SpecifierSet(tomllib.loads(pyproject)["project"]["requires-python"]).contains(python[1] + ".99"):
        problems.append(f"python: {python[1]} is outside requires-python")
    problems += [f"{name}: is missing" for name in ("pip", "nodejs") if name not in named]
    ours = {canonicalize_name(requirement.name) for requirement in direct_requirements(pyproject)}
    problems += [
        f"{name}: comes from pyproject.toml in the tested version, not from conda"
        for name in named
        if canonicalize_name(ON_CONDA.get(name, name)) in ours
    ]
    return problems


def pip_problems(lines: list[str], pyproject: str) -> list[str]:
    """The pip list of environment.yml: the constraints, and the project itself with its extras."""
    problems = []
    if "--constraint constraints.txt" not in lines:
        problems.append("pip: --constraint constraints.txt is missing")
    editable = [match for line in lines if (match := re.fullmatch(r"-e \.\[(\w+(?:,\w+)*)\]", line))]
    if len(editable) != 1:
        problems.append("pip: want one line -e .[extras] for the project itself")
    extras = tomllib.loads(pyproject)["project"]["optional-dependencies"]
    asked = {extra for match in editable for extra in match[1].split(",")}
    problems += [f"pip: there is no extra {extra}" for extra in sorted(asked - set(extras))]
    problems += [f"pip: extra {extra} is missing" for extra in sorted(set(extras) - asked)]
    others = [line for line in lines if not line.startswith(("-e .", "--constraint constraints.txt"))]
    return problems + [f"pip: unexpected line {line!r}" for line in others]


def workflow_problems(workflow: str) -> list[str]:
    """The form of a workflow file, and what we ask of each job: read-only rights, a time limit, no secrets."""
    try:
        tree = yaml.safe_load(workflow)
    except yaml.YAMLError as error:
        return [f"not YAML: {error}"]
    problems = [] if True in tree or "on" in tree else ["on: is missing"]  # YAML 1.1 reads the key `on` as true
    if tree.get("permissions") != {"contents": "read"}:
        problems.append("permissions: want contents: read")
    if "secrets." in workflow:
        problems.append("uses a secret")
    for name, job in (tree.get("jobs") or {"jobs": {}}).items():
        problems += [f"{name}: {key} is missing" for key in ("runs-on", "timeout-minutes", "steps") if key not in job]
        steps = job.get("steps", [])
        if any(("uses" in step) == ("run" in step) for step in steps):
            problems.append(f"{name}: a step needs either uses or run")
        actions = [step["uses"] for step in steps if "uses" in step]
        problems += [f"{name}: {action} names no version" for action in actions if "@" not in action]
        if not any(action.startswith("actions/checkout@") for action in actions):
            problems.append(f"{name}: the project is not checked out")
    return problems


def commands(workflow: str) -> dict[str, str]:
    """All that each job of a workflow runs, as one text."""
    jobs = yaml.safe_load(workflow)["jobs"]
    return {name: "\n".join(step["run"] for step in job["steps"] if "run" in step) for name, job in jobs.items()}


def makefile_problems(makefile: str, help_text: str) -> list[str]:
    """Commands that are not declared, or not listed by `make help`."""
    targets = re.findall(r"^([a-z][\w-]*)\s*:(?!=)", makefile, re.MULTILINE)
    declared = re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)[1].split()
    listed = re.findall(r"^make (\S+) +\S", help_text, re.MULTILINE)
    problems = [f"{name}: is not in .PHONY" for name in targets if name not in declared]
    problems += [f"{name}: is in .PHONY but has no rule" for name in declared if name not in targets]
    problems += [f"{name}: is not listed by make help" for name in targets if name not in listed]
    return problems
