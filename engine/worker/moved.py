"""Names that vLLM 0.33 has moved."""

try:
    from vllm.entrypoints.common.cli_args import make_arg_parser, validate_parsed_serve_args
except ImportError:  # 0.32
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args

__all__ = ["make_arg_parser", "validate_parsed_serve_args"]
