"""Which single component best explains the losses, and how sure that is.

Bayes over "component c loses a share p of what crosses it, everything else a share b":

    log L(c, p) = lost_c log p + (sent_c - lost_c) log(1 - p)
                + (lost - lost_c) log b + (sent - lost - sent_c + lost_c) log(1 - b)

with p averaged over SHARES and b over those BACKGROUNDS that are less than p, the components
equally likely beforehand, and "nothing is wrong" (all ways lose b) as one more hypothesis. The
confidence of a component is its posterior probability. Components that all observations cross
together cannot be told apart; they come out equal, and it takes another observation (a loop from
one end only) to part them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import exp, log

from controller.mrc.evidence import Counts, Summary

BACKGROUNDS = ((1e-5, 0.9), (1e-3, 0.09), (1e-2, 0.01))
"""(share lost on healthy ways, how likely that is): next to nothing, as a rule. The larger ones
are for hosts that hiccup: losses spread over all ways accuse nobody."""
SHARES = (1.0 - 1e-3, 0.7, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Loss shares that a failing component may have. The first stands for a cut."""
PRIOR_FAULT = 1e-3
"""Probability beforehand that something is wrong at all."""
AS_GOOD = 0.8
"""Suspects whose confidence is at least this share of the best one's are named with it."""


@dataclass(frozen=True)
class Suspect:
    """A component that may be the cause."""

    component: str
    confidence: float
    """Posterior probability, 0 to 1."""
    loss: float
    """Share of the packets that crossed it and were lost, 0 to 1."""


@dataclass(frozen=True)
class Verdict:
    """All that the evidence says."""

    healthy: float
    """Probability that nothing is wrong."""
    suspects: tuple[Suspect, ...]
    """The likeliest first, then by name."""

    @property
    def best(self) -> tuple[Suspect, ...]:
        """The suspect, or the suspects that the evidence does not tell apart."""
        if not self.suspects:
            return ()
        least = self.suspects[0].confidence * AS_GOOD
        return tuple(s for s in self.suspects if s.confidence >= least)

    def is_fault(self, certainty: float = 0.999) -> bool:
        """Whether something is wrong with at least this probability."""
        return self.healthy <= 1 - certainty


def localise(
    summary: Summary,
    *,
    innocent: Collection[str] = (),
    limit: int = 8,
    floor: float = 1e-4,
) -> Verdict:
    """Judge a window's sums.

    At most `limit` suspects are named, each with a confidence of at least `floor`, and none of
    `innocent`. What a known fault explains must not be in the evidence (Evidence.summary,
    `without`): one fault at a time.
    """
    total = summary.total
    if total.lost <= 0:
        return Verdict(1.0, ())
    healthy = log(1 - PRIOR_FAULT) + _background(total)
    candidates = [
        (name, counts)
        for name, counts in summary.by_component.items()
        if counts.lost > 0 and name not in innocent
    ]
    prior = log(PRIOR_FAULT / max(1, len(summary.by_component)) / len(SHARES))
    scores = {name: prior + _log_evidence(counts, total) for name, counts in candidates}
    top = max((healthy, *scores.values()))
    norm = exp(healthy - top) + sum(exp(score - top) for score in scores.values())
    suspects = [
        Suspect(name, exp(scores[name] - top) / norm, min(1.0, counts.lost / counts.sent))
        for name, counts in candidates
    ]
    suspects = [s for s in suspects if s.confidence >= floor]
    suspects.sort(key=lambda s: (-round(s.confidence, 6), s.component))
    return Verdict(exp(healthy - top) / norm, tuple(suspects[:limit]))


def _log_likelihood(counts: Counts, share: float) -> float:
    return counts.lost * log(share) + (counts.sent - counts.lost) * log(1 - share)


def _log_evidence(counts: Counts, total: Counts) -> float:
    """log of the sum over SHARES of the likelihood with this component at fault, and all others
    losing less than it does."""
    lost = min(counts.lost, total.lost)
    inside = Counts(counts.sent, lost)
    rest = Counts(total.sent - counts.sent, total.lost - lost)
    return _log_sum(
        _log_likelihood(inside, share) + _background(rest, below=share) for share in SHARES
    )


def _background(counts: Counts, below: float = 1.0) -> float:
    """log of the likelihood of what healthy ways lost, averaged over BACKGROUNDS."""
    return _log_sum(
        _log_likelihood(counts, share) + log(prior) for share, prior in BACKGROUNDS if share < below
    )


def _log_sum(logs: Iterable[float]) -> float:
    """log of the sum of what these are logs of."""
    terms = list(logs)
    top = max(terms)
    return top + log(sum(exp(term - top) for term in terms))
