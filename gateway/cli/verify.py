"""`specgate verify`: ask a server everything twice, with and without drafts, and compare."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import httpx

from gateway.canary import MARGINS
from gateway.cli.connection import add_connection_arguments, key_headers, url_of
from gateway.verify import (
    KINDS,
    Compared,
    Prompt,
    PromptsError,
    VerifyError,
    ask,
    compare,
    find_model,
    find_sides,
    page_of,
    read_prompts,
    sentences_of,
    shipped_prompts,
    summarise,
    table_of,
    verdict_of,
)

_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_connection_arguments(parser, key="a key")
    parser.add_argument(
        "--plain-url",
        metavar="URL",
        help="of a server of the same model without speculation; a specgate needs none",
    )
    parser.add_argument("--model", metavar="NAME", help="if the server has several")
    parser.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSON Lines (default: those that ship)"
    )
    parser.add_argument(
        "--kinds", metavar="K,K", help=f"only these of the prompts that ship: {', '.join(KINDS)}"
    )
    parser.add_argument(
        "--concurrency", type=int, default=1, metavar="N", help="prompts at once (%(default)s)"
    )
    parser.add_argument(
        "--dtype",
        choices=MARGINS,
        default="bfloat16",
        help="of the model, which says how close a near-tie is (%(default)s)",
    )
    parser.add_argument("--margin", type=float, metavar="M", help="say it yourself, in nats")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report as an HTML page")


def run(chosen: argparse.Namespace) -> int:
    """Run it; 0 if no answer is a defect, 1 if one is, 2 if the server cannot be verified."""
    try:
        prompts = _prompts(chosen)
        margin = MARGINS[chosen.dtype] if chosen.margin is None else chosen.margin
        if chosen.concurrency < 1 or margin < 0:
            raise VerifyError("--concurrency must be at least 1, and --margin at least 0")
        if chosen.out is not None and not chosen.out.absolute().parent.is_dir():
            raise VerifyError(f"{chosen.out.parent} is no folder")
        model, compared = asyncio.run(_verify(chosen, prompts, margin))
    except (PromptsError, VerifyError) as error:
        sys.stderr.write(f"specgate verify: {error}\n")
        return 2
    summaries = summarise(compared)
    sys.stdout.write(table_of(summaries))
    for sentence in (verdict_of(compared), *sentences_of(compared, summaries[-1])):
        sys.stdout.write(f"{sentence}\n")
    if chosen.out is not None:
        facts = {
            "Model": model,
            "Server": url_of(chosen),
            "Without drafts": chosen.plain_url or "the same, asked with mode off",
            "Prompts at once": str(chosen.concurrency),
            "Largest margin of a near-tie": f"{margin:g}",
            "Date": time.strftime("%Y-%m-%d %H:%M %Z"),
        }
        try:
            chosen.out.write_text(page_of(compared, facts), encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"specgate verify: {chosen.out}: {error.strerror}\n")
            return 2
    total = summaries[-1]
    if total.skipped == total.prompts:
        sys.stderr.write(f"specgate verify: every prompt was refused: {compared[0].result.why}\n")
        return 2
    return 1 if total.defects else 0


def _prompts(chosen: argparse.Namespace) -> list[Prompt]:
    if chosen.prompts is not None:
        if chosen.kinds is not None:
            raise VerifyError("--kinds is for the prompts that ship, without --prompts")
        return read_prompts(chosen.prompts)
    kinds = KINDS if chosen.kinds is None else tuple(chosen.kinds.split(","))
    if unknown := sorted({*kinds} - {*KINDS}):
        raise VerifyError(f"there are no prompts of kind {', '.join(unknown)}")
    return [prompt for prompt in shipped_prompts() if prompt.kind in kinds]


async def _verify(
    chosen: argparse.Namespace, prompts: Sequence[Prompt], margin: float
) -> tuple[str, list[Compared]]:
    url = url_of(chosen)
    plain = None if chosen.plain_url is None else chosen.plain_url.rstrip("/")
    limits = httpx.Limits(max_connections=None, keepalive_expiry=1.0)
    async with httpx.AsyncClient(
        headers=key_headers(chosen), timeout=_SECONDS, limits=limits, trust_env=False
    ) as client:
        model = await find_model(client, url, chosen.model)
        if plain is not None:
            await find_model(client, plain, model)
        without, with_drafts = await find_sides(client, url, plain)
        done = count(1)
        seats = asyncio.Semaphore(chosen.concurrency)

        async def work(prompt: Prompt) -> Compared:
            async with seats:
                # With drafts first: else the suffix index might know the answer already.
                drafted = await ask(client, with_drafts, model, prompt)
                alone = await ask(client, without, model, prompt)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{next(done)} of {len(prompts)} prompts")
                sys.stderr.flush()
            return Compared(prompt, alone, drafted, compare(alone, drafted, margin=margin))

        tasks = [asyncio.create_task(work(prompt)) for prompt in prompts]
        try:
            return model, list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            if sys.stderr.isatty():
                sys.stderr.write("\r\033[K")
