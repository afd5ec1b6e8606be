"""The codes of a model's weights, which the converter writes beside them.

`engine/models/weights.py` has their format. A linear layer of vLLM may hold several tensors of the
file, one below the other.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import safe_open

from engine.kernels import Codes

_PARTS: Mapping[str, Sequence[str]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_EMBEDDING, _OUTPUT = "model.embed_tokens", "lm_head"


class ModelCodes:
    """Finds the codes of a model folder's weights; empty for a folder without any.

    Args:
        folder: The model's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.codes")):
            with safe_open(path, framework="pt") as file:
                self._files |= dict.fromkeys(file.keys(), path)

    def of_layer(self, name: str) -> list[Codes]:
        """Return the codes of a layer's weight, from its first row on, as far as there are any.

        Args:
            name: vLLM's name of the layer, such as `model.layers.0.mlp.gate_up_proj`.
        """
        above, _, last = name.rpartition(".")
        names = [f"{above}.{part}" for part in _PARTS.get(last, (last,))] if above else [last]
        if name in (_EMBEDDING, _OUTPUT):  # one weight may be both
            names = [next((each for each in (name, _EMBEDDING) if self._has(each)), name)]
        found = []
        for each in names:
            if not self._has(each):
                break  # the place of what follows is unknown
            found.append(self._read(f"{each}.weight"))
        return found

    def _has(self, name: str) -> bool:
        return f"{name}.weight/codes" in self._files

    def _read(self, tensor: str) -> Codes:
        with safe_open(self._files[f"{tensor}/codes"], framework="pt") as file:
            keys = (f"{tensor}/{kind}" for kind in ("codes", "scales", "least"))
            return Codes(*(file.get_tensor(key) for key in keys if key in self._files))
