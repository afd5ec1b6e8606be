"""All layers in one call against vLLM's modules, for each known family with small random weights.

In a process of its own, since vLLM's groups of ranks are global.
"""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SCRIPT = """
import sys, tempfile
import torch
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.forward_context import set_forward_context
from vllm.model_executor.model_loader import get_model
from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata
from engine.worker.attention import attend_with_ours
from engine.worker.decoder import compute_in_one_call
from engine.worker.linear import pack_linear_layers

torch.accelerator.empty_cache = lambda: None  # vLLM calls it without a device, too
attend_with_ours()
pack_linear_layers()
SCALED = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
FAMILIES = {
    "LlamaForCausalLM": (LlamaConfig, dict(attention_bias=True, mlp_bias=True,
                                           tie_word_embeddings=True, rope_parameters=SCALED)),
    "MistralForCausalLM": (MistralConfig, dict(sliding_window=None)),
    "Qwen2ForCausalLM": (Qwen2Config, dict(hidden_size=128)),
    "Qwen3ForCausalLM": (Qwen3Config, dict()),
}
family, dtype = sys.argv[1], getattr(torch, sys.argv[2])
kind, extra = FAMILIES[family]
sizes = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=128, max_position_embeddings=256, head_dim=32)
config = kind(**(sizes | extra), architectures=[family])
folder = tempfile.mkdtemp()
config.save_pretrained(folder)
vllm_config = EngineArgs(
    model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True,
    dtype=sys.argv[2], max_model_len=256,
).create_engine_config()
with set_current_vllm_config(vllm_config):
    init_distributed_environment(1, 0, f"file://{folder}/ranks", 0, backend="gloo")
    initialize_model_parallel(1, 1)
    model = get_model(vllm_config=vllm_config)
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data.normal_(1, 0.2)
        if name.endswith("bias"):
            weight.data.normal_(0, 0.2)
    layers = [layer.self_attn.attn for layer in model.model.layers]
    names = [layer.layer_name for layer in layers]
    count = 70
    slots = torch.cat([torch.arange(32) + 96, torch.arange(32) + 32, torch.arange(6) + 160])
    metadata = CPUAttentionMetadata(
        num_actual_tokens=count, max_query_len=count, max_seq_len=count,
        query_start_loc=torch.tensor([0, count], dtype=torch.int32),
        seq_lens=torch.tensor([count], dtype=torch.int32),
        block_table=torch.tensor([[3, 1, 5]], dtype=torch.int32),
        slot_mapping=slots, scheduler_metadata=None,
    )
    model.model.aux_hidden_state_layers = (0, 2, 3)

    def compute():
        for layer in layers:
            layer.isa, layer.kv_cache = "vec", torch.zeros(8, 2, 32, 64, dtype=dtype)
        step = {name: metadata for name in names}, vllm_config
        mapping = {name: slots for name in names}
        with torch.inference_mode(), set_forward_context(
            *step, num_tokens=count, slot_mapping=mapping
        ):
            ids = torch.arange(count, dtype=torch.int32)
            states, streams = model(ids, torch.arange(count))
        return [states, *streams, *(layer.kv_cache for layer in layers)]

    expected = compute()
    assert compute_in_one_call(model, vllm_config, [names])
    found = compute()
for one, other in zip(found, expected, strict=True):
    difference = (one.float() - other.float()).abs().max() / other.float().abs().max()
    assert difference < (1e-5 if dtype is torch.float32 else 0.02), difference
print("the same")
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "family", ["LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"]
)
def test_one_call_computes_what_the_modules_do(family: str, dtype: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, family, dtype],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "the same" in done.stdout, done.stderr[-2000:]
