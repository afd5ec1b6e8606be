"""vLLM's dispatcher, fed with shapes of steps."""

from bench.gpu.graphs import Shape, dispatch, manager


def test_decoding_steps_of_any_lengths_run_as_one_graph() -> None:
    found = dispatch(
        manager(), [Shape(1, 1, 1), Shape(8, 8, 1), Shape(8, 37, 30), Shape(64, 500, 33)]
    )

    assert found == {"steps": 4, "full": 1.0, "decoding_full": 1.0, "padded": 561 / 546}


def test_plain_steps_are_padded_as_vllm_pads_them() -> None:
    assert dispatch(manager(), [Shape(5, 5, 1)])["padded"] == 8 / 5


def test_a_step_that_reads_a_prompt_runs_in_pieces() -> None:
    found = dispatch(manager(), [Shape(4, 100, None), Shape(4, 4, 1)])

    assert (found["full"], found["decoding_full"]) == (0.5, 1.0)


def test_steps_beyond_the_largest_graph_run_without() -> None:
    assert dispatch(manager(), [Shape(64, 600, 33)])["full"] == 0.0


def test_without_decoding_steps_nothing_is_said_of_them() -> None:
    assert dispatch(manager(), [Shape(1, 9, None)])["padded"] is None
