from pathlib import Path

import pytest

from bench.rival.llama import DRAFTS, build_options, server_command


def test_each_instruction_set_is_named_and_amx_never() -> None:
    options = build_options({"avx", "avx2", "fma", "amx_tile", "amx_bf16"})

    assert "-DGGML_NATIVE=OFF" in options
    assert "-DGGML_AVX2=ON" in options
    assert "-DGGML_AVX512=OFF" in options
    assert not any("AMX" in option for option in options)


@pytest.mark.parametrize("name", DRAFTS)
def test_all_servers_have_the_same_weights_threads_and_context(name: str) -> None:
    command = server_command(
        Path("llama-server"), name, Path("a.gguf"), port=9000, threads=2, context=8192
    )

    words = " ".join(command.arguments)
    assert "--model a.gguf" in words
    assert "--threads 2 --threads-batch 2" in words
    assert "--ctx-size 8192" in words
    assert command.name == name
    assert command.ready_url == "http://127.0.0.1:9000/health"
