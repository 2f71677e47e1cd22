"""The answer of a comparison: one plain sentence, and the details below it."""

from __future__ import annotations

from nearfold.messages import Message
from nearfold.study.judges import Judge
from nearfold.study.question import Ruling, Status, Task
from nearfold.study.showing import ScoreValue, show_p, space_name
from nearfold.study.verdict import Standing, Verdict

_LEAST_GAIN = 0.0005  # that is worth telling
_NEARLY_ALL = 0.8  # share of a gain over raw columns that scaling gives alone
_UNANSWERED = (Task.PAIRS, Task.NONE)  # neither label nor target


class Headline:
    """Says what was found."""

    def __init__(self, verdict: Verdict, judge: Judge, answer: str | None) -> None:
        self.verdict = verdict
        self.judge = judge
        self.answer = answer
        self.finished = [
            s for s in verdict.standings if s.result.status == Status.FINISHED and s.score
        ]

    def told(self) -> Message:
        """One sentence that a manager understands."""
        verdict = self.verdict
        if not self.finished or verdict.reference is None:
            return Message("headline.none")
        base = verdict.of(verdict.reference)
        if not verdict.beats_chance:
            return Message("headline.nothing", what=self._what())
        if verdict.winner is None:
            own = f".{self.judge.task.value}" if self.judge.task in _UNANSWERED else ""
            return Message(f"headline.no_better{own}", score=self._score(base), what=self._what(),
                           reference=self._columns(base))  # fmt: skip
        top = verdict.of(verdict.winner)
        return Message(f"headline.winner.{self.judge.task.value}", space=space_name(top.name),
                       d=top.result.n_dimensions, what=self._what(), score=self._score(top),
                       before=self._score(base), reference=self._columns(base))  # fmt: skip

    def details(self) -> list[Message]:
        """What stands below the sentence."""
        if not self.finished or self.verdict.reference is None:
            return []
        if not self.verdict.beats_chance:
            return self._chance()
        if self.verdict.winner is None:
            return self._not_shown()
        return self._winner(self.verdict.of(self.verdict.winner))

    def _chance(self) -> list[Message]:
        best = self.finished[0]
        chance = self._value(self.verdict.chance or 0.0)
        n = len(self.judge.split.judged)
        return [Message("details.chance", space=space_name(best.name), score=self._score(best),
                        measure=self._measure(best), chance=chance, n=n,
                        what=self.judge.held_out)]  # fmt: skip

    def _winner(self, top: Standing) -> list[Message]:
        gain = top.difference
        assert gain is not None
        assert top.score is not None
        lines = [Message("details.gain", measure=self._measure(top), p=show_p(gain.p),
                         low=self._value(top.score.low), high=self._value(top.score.high),
                         gain=self._gain(gain.difference), gain_low=self._gain(gain.low),
                         gain_high=self._gain(gain.high), n=self.verdict.n_compared)]  # fmt: skip
        lines += self._scaling(top) + self._ties(top)
        if len(self.judge.split.set_aside) == 0:
            lines.append(Message("details.optimistic"))
        return lines

    def _scaling(self, top: Standing) -> list[Message]:
        """Whether scaling the columns gives nearly all of the gain over raw ones."""
        scores = {s.name: s.score.mean for s in self.finished if s.score}
        if not {"raw", "scaled"} <= set(scores) or top.name == "scaled":
            return []
        raw, scaled, whole = scores["raw"], scores["scaled"], scores[top.name] - scores["raw"]
        if whole > 0 and scaled - raw >= _NEARLY_ALL * whole:
            return [Message("details.scaling", score=self._value(scaled), raw=self._value(raw))]
        return []

    def _ties(self, top: Standing) -> list[Message]:
        tied = [self.verdict.of(name) for name in self.verdict.tied]
        if not tied:
            return []
        shown = [Message("details.tied_space", space=space_name(s.name), d=s.result.n_dimensions,
                         score=self._score(s)) for s in tied[:6]]  # fmt: skip
        return [Message("details.tied", spaces=shown, space=space_name(top.name))]

    def _not_shown(self) -> list[Message]:
        assert self.verdict.reference is not None
        base = self.verdict.of(self.verdict.reference)
        assert base.score is not None
        lines = [Message("details.reference", measure=self._measure(base), score=self._score(base),
                         low=self._value(base.score.low),
                         high=self._value(base.score.high))]  # fmt: skip
        gains = [s for s in self.finished if s.difference and s.difference.difference > 0]
        if gains:
            most = max(gains, key=lambda s: s.difference.difference if s.difference else 0.0)
            assert most.difference is not None
            gain = most.difference
            lines += [Message("details.largest_gain", space=space_name(most.name),
                              gain=self._gain(gain.difference), low=self._gain(gain.low),
                              high=self._gain(gain.high), n=self.verdict.n_compared)]  # fmt: skip
        detectable = self.verdict.detectable or 0.0
        if detectable >= _LEAST_GAIN:
            lines += [Message("details.detectable", n=len(self.judge.split.judged),
                              gain=self._gain(detectable), what=self.judge.held_out)]  # fmt: skip
        return lines + self._smaller(base)

    def _smaller(self, base: Standing) -> list[Message]:
        """The one-standard-error rule, between spaces."""
        assert base.score is not None
        floor = base.score.mean - base.score.error
        small = [
            s for s in self.finished
            if s.score and s.score.mean >= floor and s.verdict == Ruling.NOT_SHOWN
            and s.result.n_dimensions < base.result.n_dimensions
        ]  # fmt: skip
        if not small:
            return []
        least = min(small, key=lambda s: s.result.n_dimensions)
        return [Message("details.smaller", space=space_name(least.name), score=self._score(least),
                        d=least.result.n_dimensions, of=base.result.n_dimensions)]  # fmt: skip

    def _value(self, score: float) -> ScoreValue:
        return ScoreValue.of(score, self.judge)

    def _gain(self, difference: float) -> ScoreValue:
        return ScoreValue.of(difference, self.judge, gain=True)

    def _score(self, standing: Standing) -> ScoreValue:
        assert standing.score is not None
        return self._value(standing.score.mean)

    def _measure(self, standing: Standing) -> Message:
        """What the score is, and of which learner."""
        if self.judge.task in _UNANSWERED:
            return Message(f"measure.{self.judge.task.value}", k=self.judge.ks[0])
        return Message(
            "measure.learner", score=self.judge.score_name, k=standing.result.n_neighbors
        )

    def _what(self) -> Message:
        """What is predicted."""
        if self.answer is not None:
            return Message("what.column", name=self.answer)
        return Message(f"what.{self.judge.task.value}")

    def _columns(self, base: Standing) -> Message:
        return Message(f"reference.{base.name}")
