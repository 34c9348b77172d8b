"""Contests -> answers as records of a result, and what they add to its rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deepval.basics import checks
from deepval.basics.errors import InputError, argument, suggestion
from deepval.judge.allowances import Allowance
from deepval.judge.answers.answer import Decision, Fixed, Help, decide, without_a_score
from deepval.judge.answers.blind import AlwaysMode, OnTop
from deepval.judge.answers.leads import AnswerVerdict, Lead, leads, quality
from deepval.judge.answers.sentences import Words
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.intervals import estimate
from deepval.judge.judgement import Contest, Entry, Judgement
from deepval.judge.results import Answer, Effect, Estimate, FixedMode

FixedLeads = dict[str, list[tuple[object, Lead]]]
"""The leads of fixed modes, by name, each with the prices that it is for."""


@dataclass(frozen=True)
class RowAnswer:
    """What the answer adds to a row.

    Attributes:
        lead: Over the best blind choice, with the interval that decides.
        words: The same in words.
        spend: What the row costs per input in all.
        quality: Share of right answers or mean reward, where there are such.
        verdict: run, do not run or not settled; None for fixed modes.
    """

    lead: Estimate | None
    words: str | None
    spend: float | None
    quality: float | None
    verdict: AnswerVerdict | None


@dataclass(frozen=True, eq=False)
class Told:
    """The answers of a result.

    Attributes:
        answers: One per budget.
        rows: What they add to rows.
        effect: Whether the dearer mode helps, where no allocator was judged.
    """

    answers: tuple[Answer, ...] = ()
    rows: Mapping[Judgement, RowAnswer] = field(default_factory=dict)
    effect: Effect | None = None


def tell(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    *,
    own: Collection[str] = (),
    diagnostics: Collection[str] = (),
) -> Told:
    """The answers to all budgets.

    Args:
        bootstrap: The resamples.
        contests: The policies under every budget.
        own: The user's own allocators, which alone may become the candidate.
        diagnostics: Scores that use the answer, which cannot be deployed.
    """
    # Of files larger than memory, only the two modes that are judged have totals.
    if bootstrap.rows is None and len(bootstrap.modes) > 2:
        return Told()
    nouns = ("input", "unit") if bootstrap.rows is None else bootstrap.rows.nouns
    words = Words(bootstrap, *nouns)
    rows: dict[Judgement, RowAnswer] = {}
    decisions = []
    fixed_leads: FixedLeads = {}
    for contest in contests:
        decision = decide(bootstrap, contest, own=own, never=diagnostics)
        decisions.append(decision)
        rows |= _row_answers(words, contest, decision, fixed_leads)
    # Beside a router's own budget, a budget without an allocator asks nothing.
    asked = [one for one in decisions if one.judged or one.refused]
    effect = None
    if not asked:
        asked = [one for one in decisions if one.allowance.spender is None]
        if bootstrap.rows is not None:
            effect = without_a_score(bootstrap, contests)
    answers = tuple(_answer(words, decision, effect) for decision in asked)
    return Told(answers, rows, _effect_record(words, effect))


def own_of(
    names: str | Sequence[str], scores: Any, tables: Sequence[str] = ()
) -> tuple[str, ...]:
    """The user's own allocators, which must be among those that are judged."""
    own = checks.texts(names, "own")
    judged = (*scores, *tables) if isinstance(scores, Mapping) else own
    for name in own:
        if name not in judged:
            raise InputError(
                f"{argument('own')} must name allocators that are judged; found "
                f"{name!r}"
                f"{suggestion(name, judged)}"
            )
    return own


def _answer(words: Words, decision: Decision, effect: Help | None) -> Answer:
    """The record of a decision."""
    sentence = words.sentence(decision)
    if effect is not None:
        # Without a score there is nothing to run or not to run but the modes.
        sentence = words.effect(effect)
    return Answer(
        budget=decision.allowance.key,
        verdict=decision.verdict,
        best_fixed=decision.best_fixed.mode,
        best_fixed_gain=decision.best_fixed.total,
        best_fixed_spend=decision.best_fixed.spend,
        fixed=tuple(_fixed_mode(words, decision, mode) for mode in decision.fixed),
        scale=words.scale.kind,
        more_units=decision.more_units,
        sentence=sentence,
        instead=words.instead(decision),
        hint=words.hint(decision) or words.rivals(decision),
        doubt=words.doubt(decision),
        **_candidate_fields(words, decision.candidate),
        **_base_fields(decision.on_top),
    )


def _candidate_fields(words: Words, candidate: Lead | None) -> dict[str, Any]:
    """What an answer says of its candidate; nothing where no allocator can run."""
    if candidate is None:
        return dict.fromkeys(("candidate", "gain", "lead", "lead_words", "against"))
    return {
        "candidate": candidate.name,
        "gain": candidate.total,
        "lead": _estimate(candidate),
        "lead_words": words.lead(candidate),
        "against": words.mixture(candidate.mixture),
    }


def _base_fields(on_top: Lead | None) -> dict[str, Any]:
    """The score that is worth running on a better base, if there is one."""
    if on_top is None:
        return {"on_top": None, "on_top_score": None}
    policy = on_top.policy
    assert isinstance(policy, OnTop)
    return {"on_top": policy.base, "on_top_score": policy.ranking.name}


def _fixed_mode(words: Words, decision: Decision, mode: Fixed) -> FixedMode:
    return FixedMode(
        mode=mode.mode,
        gain=mode.total,
        spend=_in_all(decision.allowance, mode.spend),
        quality=_quality(words, mode.total),
        fits=mode.fits,
    )


def _effect_record(words: Words, effect: Help | None) -> Effect | None:
    if effect is None:
        return None
    largest = effect.largest
    gain = effect.gain
    value = None
    if gain.value is not None:
        value = estimate(gain.value, gain.interval)
    return Effect(
        verdict=effect.verdict,
        gain=value,
        changed=effect.changed,
        helped=effect.helped,
        harm_ratio=effect.harm_ratio,
        worse=tuple(unit.unit for unit in effect.worse),
        largest=None if largest is None else largest.unit,
        largest_share=None if largest is None else largest.share,
        sentences=tuple(words.help_sentences(effect)),
        doubt=words.help_doubt(effect),
    )


def _row_answers(
    words: Words, contest: Contest, decision: Decision, fixed_leads: FixedLeads
) -> dict[Judgement, RowAnswer]:
    """What an answer adds to the rows of its contest."""
    allowance = contest.allowance
    leads_by_name = {lead.name: lead for lead in (*decision.judged, *decision.others)}
    reasons = dict(decision.refused)
    rows: dict[Judgement, RowAnswer] = {}
    for entry in contest.entries:
        row = entry.judgement
        name = entry.policy.name
        if isinstance(entry.policy, AlwaysMode):
            lead = _lead_of_fixed(words.bootstrap, allowance, entry, fixed_leads)
            rows[row] = _row_answer(words, allowance, lead, verdict=None)
        elif name in leads_by_name:
            lead = leads_by_name[name]
            rows[row] = _row_answer(words, allowance, lead, verdict=lead.verdict)
        elif name in reasons and row.refusal == "infeasible":
            rows[row] = RowAnswer(None, None, None, None, "do not run")
    return rows


def _lead_of_fixed(
    bootstrap: Bootstrap, allowance: Allowance, entry: Entry, known: FixedLeads
) -> Lead:
    """A fixed mode against the best blind mixture at its price; none is above."""
    # It depends on what the modes cost, and not on the share that may be spent.
    price = allowance.budget.convention, allowance.budget.accounting, allowance.costs
    for own_price, lead in known.get(entry.policy.name, []):
        if own_price == price:
            return lead
    assert entry.outcome.gains is not None  # only modes that fit have a row
    (lead,) = leads(bootstrap, allowance, [(entry.policy, entry.outcome.gains)])
    known.setdefault(entry.policy.name, []).append((price, lead))
    return lead


def _row_answer(
    words: Words, allowance: Allowance, lead: Lead, *, verdict: AnswerVerdict | None
) -> RowAnswer:
    return RowAnswer(
        lead=_estimate(lead),
        words=words.lead(lead),
        spend=_in_all(allowance, lead.spend),
        quality=_quality(words, lead.total),
        verdict=verdict,
    )


def _estimate(lead: Lead) -> Estimate | None:
    """A lead as rows show differences, with the interval that decides."""
    value = lead.of_rows.figure.value
    if value is None:
        return None
    return estimate(value, lead.of_rows.bounds)


def _in_all(allowance: Allowance, spend: float) -> float:
    """What an input costs, the cheap mode included."""
    return spend + allowance.cheap if allowance.is_measured else spend


def _quality(words: Words, total: float) -> float | None:
    if words.scale.kind in ("right", "reward"):
        return quality(words.bootstrap, total)
    return None
