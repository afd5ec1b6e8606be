"""Holds the direction of imports, read from the source with `ast`; nothing is imported here.

Change a table below only together with an ADR that says why.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("bench", "gateway", "engine", "helm", "loadtest", "monitoring")

# Top to bottom: a room imports from lower tiers only, never from a neighbour on its own.
TIERS: Mapping[str, tuple[frozenset[str], ...]] = {
    "gateway": tuple(
        frozenset(tier.split())
        for tier in (
            "__main__ cli",
            "server verify",
            "app http_protocol",
            "assembly",
            "api",
            "middleware",
            "serving live",
            "canary",
            "supervisor upstream admission relay responses",
            "routing pacing protocol",
            "telemetry",
            "settings",
            "errors",
            "types",
        )
    ),
    "engine": tuple(
        frozenset(tier.split())
        for tier in (
            "__main__",
            "tuning",
            "worker training",
            "drafting",
            "models heads kernels suffix simulation traffic",
            "config",
            "policy",
            "lifetime processor errors types",
        )
    ),
}

# Everybody else is handed the small values that it needs.
SETTINGS_READERS = frozenset({"__main__", "cli", "server", "app", "assembly"})

# Third-party package -> the rooms of each package that may import it.
CONFINED: Mapping[str, frozenset[str]] = {
    "fastapi": frozenset({"gateway.server", "gateway.app", "gateway.api", "gateway.middleware"}),
    "starlette": frozenset({"gateway.server", "gateway.app", "gateway.api", "gateway.middleware"}),
    "aiohttp": frozenset(),
    "redis": frozenset({"gateway.admission"}),
    "psycopg": frozenset({"gateway.responses"}),
    "psycopg_pool": frozenset({"gateway.responses"}),
    "sqlite3": frozenset({"gateway.responses"}),
    "opentelemetry": frozenset({"gateway.telemetry"}),
    "grafana_foundation_sdk": frozenset(),
    "httpx": frozenset({"engine.training", "gateway.cli", "gateway.upstream", "gateway.verify"}),
    "rich": frozenset({"gateway.cli"}),
    "vllm": frozenset({"engine.worker"}),
    "cryptography": frozenset({"engine.traffic"}),
    "matplotlib": frozenset({"engine.training"}),
    "transformers": frozenset({"engine.training"}),
    "torch": frozenset(
        {
            "engine.worker",
            "engine.heads",
            "engine.kernels",
            "engine.training",
            "engine.models",
            "engine.traffic",
        }
    ),
}

# The chart's values contain both settings trees and the numbers in the rules; otherwise they meet
# on the wire. `bench` measures the others from inside, and none of them imports it.
CROSSINGS = frozenset({
    ("helm.values.chart", "engine.config"),
    ("helm.values.chart", "gateway.settings"),
    ("helm.values.monitoring", "monitoring.rules"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Module:
    """One source file."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def room(self) -> str:
        """The name under the package, empty for the package itself."""
        return room_of(self.name)

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield (module imported, line); for `from a import b` both `a` and `a.b` are yielded."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield base, node.lineno
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)

    def binds(self, name: str) -> bool:
        """Tell whether the module itself imports this name from somewhere."""
        return any(
            name in {alias.asname or alias.name for alias in node.names}
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
        )

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        is_package = self.path.name == "__init__.py"
        parts = self.name.split(".")
        parents = parts[: len(parts) - node.level + is_package]
        return ".".join([*parents, *([node.module] if node.module else [])])


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def read_modules() -> dict[str, Module]:
    modules = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path == ROOT / "engine" / "hatch_build.py":
            continue  # part of the build, not of the package
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        modules[name] = Module(name, path, tree)
    return modules


MODULES = read_modules()


def internal_edges() -> Iterator[tuple[Module, str, int]]:
    """Yield every import of one of our modules, as (importer, imported, line)."""
    for module in MODULES.values():
        for name, line in module.imports():
            package, _, last = name.rpartition(".")
            # A room may give a function the name of the file that it lies in.
            is_reexport = package in MODULES and MODULES[package].binds(last)
            if name in MODULES and name != module.name and not is_reexport:
                yield module, name, line


def at(module: Module, line: int) -> str:
    return f"{module.path.relative_to(ROOT)}:{line}"


def tier_of(package: str, room: str) -> int:
    return next(level for level, rooms in enumerate(TIERS[package]) if room in rooms)


def find_wrong_edges() -> list[str]:
    wrong = []
    for module, imported, line in internal_edges():
        package, _, _ = imported.partition(".")
        if package != module.package or package not in TIERS:
            continue
        source, target = module.room, room_of(imported)
        if not source or not target or source == target:
            continue
        if tier_of(package, target) <= tier_of(package, source):
            wrong.append(f"{at(module, line)}: {source} must not import {target}")
    return wrong


def find_cycles() -> list[str]:
    graph: dict[str, set[str]] = {}
    for module, imported, _ in internal_edges():
        # `from a import b` names the package too; when `b` is a module, that is what is meant.
        graph.setdefault(module.name, set()).add(imported)
    for name, targets in graph.items():
        room = MODULES[name].path.parent
        targets -= {
            target
            for target in targets
            if any(other.startswith(f"{target}.") for other in targets)
            and MODULES[target].path.parent == room
        }
    cycles: list[str] = []
    finished: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            cycles.append(" > ".join((*trail[trail.index(name) :], name)))
        elif name not in finished:
            for target in sorted(graph.get(name, ())):
                visit(target, (*trail, name))
            finished.add(name)

    for name in sorted(graph):
        visit(name, ())
    return cycles


def test_every_room_has_a_tier() -> None:
    rooms = {(m.package, m.room) for m in MODULES.values() if m.room and m.package in TIERS}
    known = {(package, room) for package in TIERS for tier in TIERS[package] for room in tier}

    assert rooms <= known


def test_rooms_import_lower_tiers_only() -> None:
    assert find_wrong_edges() == []


def test_no_module_imports_itself_in_a_circle() -> None:
    assert find_cycles() == []


def test_packages_meet_on_the_wire_only() -> None:
    wrong = [
        at(module, line)
        for module, imported, line in internal_edges()
        if imported.partition(".")[0] != module.package
        and module.package != "bench"
        and (module.name, ".".join(imported.split(".")[:2])) not in CROSSINGS
    ]

    assert wrong == []


def test_settings_are_read_where_things_are_built_and_nowhere_else() -> None:
    wrong = [
        at(module, line)
        for module, imported, line in internal_edges()
        if imported == "gateway.settings"
        and module.package == "gateway"
        and module.room not in SETTINGS_READERS
    ]

    assert wrong == []


@pytest.mark.parametrize("package", CONFINED)
def test_a_confined_package_stays_in_its_rooms(package: str) -> None:
    wrong = {
        at(module, line)
        for module in MODULES.values()
        for name, line in module.imports()
        if name.partition(".")[0] == package
        and module.package in TIERS
        and f"{module.package}.{module.room}" not in CONFINED[package]
    }

    assert wrong == set()


def test_other_rooms_are_entered_by_their_front_door() -> None:
    """`from gateway.routing import choose`, not from the files inside it."""
    wrong = [
        f"{at(module, line)}: {imported}"
        for module, imported, line in internal_edges()
        if imported.count(".") >= 2
        and room_of(imported) != module.room
        and module.package != "bench"
    ]

    assert wrong == []


def test_every_module_says_what_it_owns() -> None:
    silent = [name for name, module in MODULES.items() if not ast.get_docstring(module.tree)]

    assert silent == []


def test_package_files_hold_no_logic() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    wrong = [
        at(module, node.lineno)
        for module in MODULES.values()
        if module.path.name == "__init__.py"
        for node in module.tree.body[1:]
        if not isinstance(node, allowed)
    ]

    assert wrong == []


def test_every_unit_test_mirrors_a_source_file() -> None:
    """Itself, or the folder that it lies in: tests of several ideas of one file.

    The chart has templates instead of modules.
    """
    unit = ROOT / "tests" / "unit"
    strays = []
    for path in unit.rglob("test_*.py"):
        if path.parent in {unit, unit / "helm"}:
            continue
        folder = path.parent.relative_to(unit)
        place = ROOT / "tests" / folder if folder.parts[0] == "fakes" else ROOT / folder
        name = path.stem.removeprefix("test_")
        mirrored = (f"__{name}__.py", *(f"{name}{end}" for end in (".py", ".cpp", ".hpp", ".yaml")))
        sources = [place / source for source in mirrored] + [place.with_suffix(".py")]
        if not any(source.is_file() for source in sources):
            strays.append(str(path.relative_to(ROOT)))

    assert strays == []
