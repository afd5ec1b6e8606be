"""Compares the answers that were kept, and sums up. Pure but for reading them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.exact.answers import Answer
from bench.exact.plan import (
    DTYPES,
    KERNELS,
    PEERS,
    STEP_TOKENS,
    Dtype,
    Pass,
    Serving,
    reference_of,
)
from bench.exact.records import Answers, Records, key_of
from bench.rounds import Json
from gateway.canary import MARGINS
from gateway.verify import KINDS, Outcome, Prompt, Result, compare

SAME, NEAR_TIE, DEFECT, UNTESTED, REFUSED = "same", "near_tie", "defect", "untested", "refused"
_WORDS = {
    Outcome.SAME: SAME,
    Outcome.NEAR_TIE: NEAR_TIE,
    Outcome.DIFFERS: DEFECT,
    Outcome.SKIPPED: REFUSED,
}
DEFINITIONS = {
    "same": "the same tokens, message and finish_reason as without drafts, alone and with nothing "
    "cached, where something was drafted, and the prompt was cached or cut if the setting says so",
    "near_tie": "they part where the reference gives both tokens almost the same probability",
    "defect": "they part anywhere else, or the request was refused once",
    "untested": "the same, but nothing was drafted, or the prompt was not cached or not cut: "
    "shows nothing, and counts in no share",
    "refused": "refused by the reference as well",
    "same_share": "same over same, near_tie and defect: of specgate on our kernels",
    "defects": "of specgate in all settings",
    "failed": "workers that did not start, or did not answer; they are asked again in the next run",
    "kernels": "both references of a dtype, on our kernels and on vLLM's, beside each other",
    "cut": f"steps have at most {STEP_TOKENS} tokens, so that longer prompts take several",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer and what became of it.

    Attributes:
        setting: Its name.
        by: The pass.
    """

    by: Pass
    setting: str
    prompt: Prompt
    answer: Answer
    outcome: str
    result: Result


def report(passes: Sequence[Pass], prompts: Sequence[Prompt], records: Records) -> Json:
    """Compare all answers of these passes with their references.

    Args:
        passes: Of the plan.
        prompts: Of the plan; answers to others are left out.
        records: The answers.
    """
    kept = {one.name: records.load(one) for one in passes}
    found = [
        compared
        for one in passes
        if not one.is_reference
        for compared in _compare(one, prompts, kept[one.name], kept[reference_of(one).name])
    ]
    ours = [one for one in found if one.by.serving.drafter == "specgate"]
    promised = {
        dtype: [
            one for one in ours if (one.by.serving.dtype, one.by.serving.kernels) == (dtype, "ours")
        ]
        for dtype in DTYPES
    }
    return {
        "bench": "exact",
        "prompts": len(prompts),
        "kinds": {
            kind: _by_setting([one for one in found if one.prompt.kind == kind], _counts)
            for kind in KINDS
        },
        **{f"same_share_{dtype}": _share(promised[dtype]) for dtype in DTYPES},
        "defects": _defects(ours),
        "peer_defects": {
            peer: _defects([one for one in found if one.by.source == peer]) for peer in PEERS
        },
        "settings": _by_setting(found, _describe),
        "ours_by_kind": {
            f"{kind}, {dtype}": _describe(
                [one for one in promised[dtype] if one.prompt.kind == kind]
            )
            for kind in KINDS
            for dtype in DTYPES
        },
        "kernels": {
            dtype: _kernels([kept.get(name, {}) for name in _references(dtype)], prompts, dtype)
            for dtype in DTYPES
        },
        "differences": [_difference(one) for one in found if one.outcome in (NEAR_TIE, DEFECT)],
        "left_out": [name for name, answers in kept.items() if not answers],
        "definitions": DEFINITIONS,
    }


def table_of(found: Json) -> str:
    """Return all settings, and the kinds on our kernels, as tables in Markdown."""
    settings = found["settings"]
    sums = {
        word: sum(figures[word] for figures in settings.values())
        for word in ("drafted", "accepted", UNTESTED, REFUSED)
    }
    return "\n".join([
        *_grid(settings, row_parts=3),
        "",
        "{drafted} tokens were drafted, {accepted} of them accepted. {untested} answers are "
        "untested, {refused} were refused.".format(**sums),
        "",
        *_grid(found["ours_by_kind"], row_parts=1),
        "",
    ])  # fmt: skip


def _grid(figures: Mapping[str, Json], *, row_parts: int) -> Iterator[str]:
    """Yield a table: a figure's row is named by the first parts of its name."""
    cells: dict[str, dict[str, str]] = {}
    for name, counts in figures.items():
        parts = name.split(", ")
        column = ", ".join(parts[row_parts:])
        cells.setdefault(", ".join(parts[:row_parts]), {})[column] = _cell(counts)
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in cells.items():
        yield f"| {name} | {' | '.join(row.get(column, '') for column in columns)} |"


def _cell(counts: Json) -> str:
    tested = counts[SAME] + counts[NEAR_TIE] + counts[DEFECT]
    if not tested:
        return ""
    words = {NEAR_TIE: "near-ties", DEFECT: "defects"}
    found = [f"{counts[key]} {word}" for key, word in words.items() if counts[key]]
    return ", ".join([f"{counts[SAME]} of {tested}", *found])


def _compare(
    one: Pass, prompts: Sequence[Prompt], answers: Answers, references: Answers
) -> Iterator[Compared]:
    margin = MARGINS[one.serving.dtype]
    for prompt in prompts:
        key = key_of(prompt)
        if key not in answers or key not in references:
            continue
        plain = references[key][0].asked()
        for again, (setting, answer) in enumerate(zip(one.settings, answers[key], strict=True)):
            result = compare(plain, answer.asked(), margin=margin)
            outcome = _WORDS[result.outcome]
            if outcome == SAME and not _is_tested(one, answer, again=bool(again)):
                outcome = UNTESTED
            yield Compared(one, setting, prompt, answer, outcome, result)


def _is_tested(one: Pass, answer: Answer, *, again: bool) -> bool:
    """Tell whether an answer came about as its setting says."""
    was_cached = answer.cached_tokens > 0
    was_cut = answer.prompt_tokens > STEP_TOKENS
    return answer.drafted > 0 and was_cached == again and (was_cut or not one.serving.cuts)


def _references(dtype: Dtype) -> Sequence[str]:
    return [Pass(Serving(dtype, kernels, "none"), "none", 1).name for kernels in KERNELS]


def _kernels(references: Sequence[Answers], prompts: Sequence[Prompt], dtype: Dtype) -> Json:
    """Compare the references on both kernels, which share no code in a layer."""
    ours, others = references
    outcomes = Counter(
        compare(ours[key][0].asked(), others[key][0].asked(), margin=MARGINS[dtype]).outcome
        for key in map(key_of, prompts)
        if key in ours and key in others
    )
    return {
        "same": outcomes[Outcome.SAME],
        "near_tie": outcomes[Outcome.NEAR_TIE],
        "differs": outcomes[Outcome.DIFFERS],
    }


def _by_setting(found: Sequence[Compared], figure: Callable[[Sequence[Compared]], Json]) -> Json:
    settings: dict[str, list[Compared]] = {}
    for one in found:
        settings.setdefault(one.setting, []).append(one)
    return {name: figure(of_setting) for name, of_setting in settings.items()}


def _describe(found: Sequence[Compared]) -> Json:
    return {
        "prompts": len(found),
        **_counts(found),
        "same_share": _share(found),
        "drafted": sum(one.answer.drafted for one in found),
        "accepted": sum(one.answer.accepted for one in found),
    }


def _counts(found: Sequence[Compared]) -> Json:
    outcomes = Counter(one.outcome for one in found)
    return {word: outcomes[word] for word in (SAME, NEAR_TIE, DEFECT, UNTESTED, REFUSED)}


def _share(found: Sequence[Compared]) -> float | None:
    outcomes = Counter(one.outcome for one in found)
    tested = outcomes[SAME] + outcomes[NEAR_TIE] + outcomes[DEFECT]
    return outcomes[SAME] / tested if tested else None


def _defects(found: Sequence[Compared]) -> int:
    return sum(one.outcome == DEFECT for one in found)


def _difference(one: Compared) -> Json:
    return {
        "setting": one.setting,
        "kind": one.prompt.kind,
        "prompt": one.prompt.number,
        "outcome": one.outcome,
        "place": one.result.place,
        "margin": one.result.margin,
        "why": one.result.why,
    }
