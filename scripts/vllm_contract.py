"""What engine/ uses of vLLM, found in our sources, and whether a release of vLLM has it.

Nothing is imported: the sources of several releases can be read on one machine.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ENGINE = Path(__file__).parent.parent / "engine"


@dataclass(frozen=True, slots=True)
class Use:
    """A name that one of our files imports from vLLM.

    Attributes:
        file: Our file, relative to engine/.
        module: vLLM's module.
        name: The name; empty if the module itself is imported.
        alias: What we call it.
        instead: The module that has it in other releases; empty if there is none.
    """

    file: str
    module: str
    name: str
    alias: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Subclass:
    """A class of ours that extends one of vLLM's.

    Attributes:
        file: Our file, relative to engine/.
        name: Its name.
        base: How the file calls vLLM's class.
        parts: The definitions of the class and of those of our bases that are in the same file.
    """

    file: str
    name: str
    base: str
    parts: tuple[ast.ClassDef, ...]

    def methods(self) -> Iterator[ast.FunctionDef]:
        """Yield our methods."""
        for part in self.parts:
            for node in part.body:
                if isinstance(node, ast.FunctionDef):
                    yield node

    def calls_of_super(self) -> set[str]:
        """Return the names of vLLM's methods that ours go on with."""
        return {
            node.attr
            for part in self.parts
            for node in ast.walk(part)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id == "super"
        }

    def reads(self) -> set[str]:
        """Return the attributes that our methods read of `self` and that we do not define."""
        read, ours = set[str](), {method.name for method in self.methods()}
        for part in self.parts:
            for node in ast.walk(part):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                        read.add(name)
                    case ast.Attribute(value=ast.Name(id="self"), attr=name):
                        ours.add(name)
        return read - ours


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ENGINE.rglob("*.py")):
        yield str(path.relative_to(ENGINE)), _parse(path)


def purpose_of(file: str) -> str:
    """Return the first sentence of one of our files."""
    text = ast.get_docstring(_parse(ENGINE / file)) or ""
    return " ".join(text.split("\n\n")[0].split()).removesuffix(".")


@cache
def find_uses() -> tuple[Use, ...]:
    """Return what our files import from vLLM."""
    uses = []
    for file, tree in _files():
        others = dict(_alternatives(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and _is_vllms(node.module or ""):
                assert node.module is not None
                instead = others.get(node.module, "")
                uses += [
                    Use(file, node.module, one.name, one.asname or one.name, instead)
                    for one in node.names
                ]
            elif isinstance(node, ast.Import):
                uses += [
                    Use(file, one.name, "", one.asname or one.name)
                    for one in node.names
                    if _is_vllms(one.name)
                ]
    return tuple(uses)


def find_subclasses() -> list[Subclass]:
    """Return our classes that extend one of vLLM's, directly or with a base of ours before it."""
    found = []
    for file, tree in _files():
        names = {use.alias for use in find_uses() if use.file == file}
        names |= {alias for alias, real in _aliases(tree).items() if real in names}
        classes: dict[str, tuple[ast.ClassDef, ...]] = {}  # the latest of a name, with its bases
        extended: dict[str, str] = {}
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        for node in sorted(nodes, key=lambda node: node.lineno):
            bases = [ast.unparse(base) for base in node.bases]
            ours = (part for base in bases for part in classes.get(base, ()))
            parts = classes[node.name] = (node, *ours)
            theirs = [base for base in bases if base.split(".")[0] in names]
            theirs += [extended[base] for base in bases if base in extended]
            for base in theirs:
                extended[node.name] = base
                found.append(Subclass(file, node.name, base, parts))
    return found


def find_patches() -> list[tuple[str, str]]:
    """Return what we replace in vLLM: our file, and the target of the assignment."""
    found = []
    for file, tree in _files():
        names = {use.alias for use in find_uses() if use.file == file}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                target = ast.unparse(node.targets[0])
                if target.split(".")[0] in names:
                    found.append((file, target))
    return found


def resolve_alias(file: str, name: str) -> Use:
    """Return the import behind a name of one of our files."""
    real = _aliases(_parse(ENGINE / file)).get(name, name)
    return next(use for use in find_uses() if (use.file, use.alias) == (file, real))


def _aliases(tree: ast.Module) -> Mapping[str, str]:
    """Names that stand for another one, `_Base: Any = Base`."""
    return {
        node.target.id: node.value.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Name)
    }


def _alternatives(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield pairs of modules of which one is imported if the other is not there."""
    for node in tree.body:
        if isinstance(node, ast.Try):
            modules = [one.module for one in ast.walk(node) if isinstance(one, ast.ImportFrom)]
            if len(modules) == 2 and modules[0] and modules[1]:
                yield modules[0], modules[1]
                yield modules[1], modules[0]


def _is_vllms(module: str) -> bool:
    return module == "vllm" or module.startswith("vllm.")


class Release:
    """The sources of a release of vLLM.

    Args:
        folder: Holds the package `vllm`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tree(self, module: str) -> ast.Module | None:
        """Return a module's tree; None if there is no such module."""
        path = self._folder.joinpath(*module.split(".")) if module else self._folder
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return _parse(file)
        return None

    def has(self, module: str, name: str) -> bool:
        """Tell whether a name can be imported from a module."""
        if not name:
            return self.tree(module) is not None
        if self.tree(f"{module}.{name}") is not None:
            return True
        tree = self.tree(module)
        if tree is None:
            return False
        return name in _names(tree) or any(
            self.has(f"{module}.{other}", name) for other in _all_of(tree)
        )

    def find_class(self, module: str, name: str) -> "VllmClass | None":
        """Return a class, also where the module only imports it."""
        tree = self.tree(module)
        if tree is None:
            return None
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=found) if found == name:
                    return VllmClass(self, module, node)
                case ast.ImportFrom(module=str(origin), level=0, names=names):
                    for one in names:
                        if (one.asname or one.name) == name:
                            return self.find_class(origin, one.name)
                # vllm/__init__.py imports its names when they are asked for.
                case ast.Constant(value=str(text)) if text.endswith(f":{name}"):
                    return self.find_class(module + text.removesuffix(f":{name}"), name)
        return None


@dataclass(frozen=True)
class VllmClass:
    """A class of a release."""

    release: Release
    module: str
    node: ast.ClassDef

    @cached_property
    def family(self) -> tuple["VllmClass", ...]:
        """The class and all its bases in vLLM."""
        bases = (base.id for base in self.node.bases if isinstance(base, ast.Name))
        found = (self.release.find_class(self.module, base) for base in bases)
        return (self, *(member for base in found if base is not None for member in base.family))

    def method(self, name: str) -> ast.FunctionDef | None:
        """Return a method, the class's own or inherited."""
        for member in self.family:
            for node in member.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return node
        return None

    def attributes(self) -> set[str]:
        """Return the names that instances have: methods, and what any method sets on `self`."""
        found = set[str]()
        for member in self.family:
            for node in member.node.body:
                match node:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                        found.add(name)
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        found.add(name)
                    case ast.Assign(targets=[ast.Name(id=name)]):
                        found.add(name)
            for node in ast.walk(member.node):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                        found.add(name)
        return found


def _all_of(tree: ast.Module) -> list[str]:
    """The modules beside it that a package imports everything from."""
    return [
        node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        and node.level == 1
        and node.module
        and node.names[0].name == "*"
    ]


@cache
def _names(tree: ast.Module) -> set[str]:
    """All names that a module binds at its top level, or promises in a table of lazy imports."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                found |= {one.asname or one.name for one in names}
            case ast.Constant(value=str(text)):
                found.add(text)
    return found


def find_differences(ours: ast.FunctionDef, vllms: ast.FunctionDef) -> list[str]:
    """Return why vLLM could not call our method as it calls its own."""
    mine, theirs = ours.args, vllms.args
    if mine.vararg is not None and mine.kwarg is not None:
        named = [one.arg for one in mine.args]
        expected = [one.arg for one in theirs.args][: len(named)]
        return [] if named == expected else [f"positions {named} are {expected} in vLLM"]
    problems = []
    names, expected = [one.arg for one in mine.args], [one.arg for one in theirs.args]
    if mine.vararg is None and names != expected:
        problems.append(f"parameters {names} are {expected} in vLLM")
    if mine.kwarg is None:
        keywords = {one.arg for one in mine.kwonlyargs}
        problems += [
            f"vLLM's {one.arg} is missing" for one in theirs.kwonlyargs if one.arg not in keywords
        ]
    return problems
