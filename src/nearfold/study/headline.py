"""The answer of a comparison in a few sentences."""

from __future__ import annotations

import numpy as np

from nearfold.study.judges import Judge
from nearfold.study.statistics import holm
from nearfold.study.told import Told
from nearfold.study.trial import FINISHED
from nearfold.study.verdict import SIGNIFICANT, Standing, Verdict, difference


class Headline:
    """The answer in a few sentences."""

    def __init__(self, verdict: Verdict, judge: Judge) -> None:
        self.judge = judge
        self.reference = verdict.reference
        self.winner = verdict.winner
        self.beats_chance = verdict.beats_chance
        self.finished = [s for s in verdict.standings if s.result.status == FINISHED and s.score]

    def told(self) -> Told:
        """All of it."""
        if not self.finished:
            return Told("No space was finished.", "没有一个空间完成评估。")
        if not self.beats_chance:
            return self._nothing()
        if self.winner is None:
            return self._no_better()
        return self._winner()

    def _nothing(self) -> Told:
        best = self.finished[0]
        assert best.score is not None
        chance = self.judge.chance or 0.0
        return Told(
            f"No space is clearly better than chance: the best, {best.result.name}, has a "
            f"held-out {self.judge.score_name.en} of {self.show(best.score.mean)}, and guessing "
            f"without the columns has {self.show(chance)}. With {self._rows()} these columns "
            "cannot be shown to tell what was asked.",
            f"没有一个空间明显优于随机猜测:最好的 {best.result.name} "
            f"留出{self.judge.score_name.zh}为 {self.show(best.score.mean)},"
            f"不看任何列的猜测为 {self.show(chance)}。"
            f"以现有的 {len(self.judge.X):,} 行数据,不能证明这些列包含所问的信息。",
        )

    def _winner(self) -> Told:
        top = next(s for s in self.finished if s.result.name == self.winner)
        base = next(s for s in self.finished if s.result.name == self.reference)
        score, gain = top.score, top.difference
        assert score is not None
        assert gain is not None
        assert base.score is not None
        d, name = top.result.n_dimensions, top.result.name
        told = Told(
            f"{name} in {counted(d, 'dimension')}: "
            f"{self._what('en')} {self.show(score.mean)} "
            f"({self.show(score.low)} to {self.show(score.high)}), "
            f"{self._points(gain.mean, 'en')} more than {self._where('en')} "
            f"({self.show(base.score.mean)}; p {_p(top.p)} after correction for "
            f"{counted(len(self.finished) - 1, 'comparison')}).",
            f"{name}({d} 维):{self._what('zh')}为 {self.show(score.mean)}"
            f"({self.show(score.low)} 至 {self.show(score.high)}),比{self._where('zh')}"
            f"({self.show(base.score.mean)})高 {self._points(gain.mean, 'zh')}"
            f"(经 {len(self.finished) - 1} 次比较校正,p {_p(top.p)})。",
        )
        told = told + self._ties(top)
        if len(self.judge.split.set_aside):
            return told
        return told + Told(
            "As the best of several its score flatters it a little: no rows were left for a last "
            "check.",
            "作为多个空间中的最好者,其得分略偏乐观:没有剩余的行可做最后检验。",
        )

    def _no_better(self) -> Told:
        base = next((s for s in self.finished if s.result.name == self.reference), None)
        if base is None or base.score is None:
            return Told("The reference was not finished.", "参照空间未完成评估。")
        told = Told(
            f"No space beats {self._where('en')}, in which {self._what('en')} "
            f"{self.show(base.score.mean)} ({self.show(base.score.low)} to "
            f"{self.show(base.score.high)}). {self._largest_gain('en')}",
            f"没有一个空间胜过{self._where('zh')}:其{self._what('zh')}为 "
            f"{self.show(base.score.mean)}({self.show(base.score.low)} 至 "
            f"{self.show(base.score.high)})。{self._largest_gain('zh')}",
        )
        # The one-standard-error rule, between spaces.
        floor = base.score.mean - base.score.error
        small = [
            s
            for s in self.finished
            if s.score
            and s.score.mean >= floor
            and s.verdict == "noise"
            and s.result.n_dimensions < base.result.n_dimensions
        ]
        if not small:
            return told
        least = min(small, key=lambda s: s.result.n_dimensions)
        assert least.score is not None
        return told + Told(
            f"Within one standard error of it in fewer dimensions: {least.result.name}, "
            f"{least.result.n_dimensions} instead of {base.result.n_dimensions} "
            f"({self.show(least.score.mean)}).",
            f"与之相差不超过一个标准误而维数更少的:{least.result.name},"
            f"{least.result.n_dimensions} 维(原为 {base.result.n_dimensions} 维),"
            f"{self.show(least.score.mean)}。",
        )

    def _largest_gain(self, language: str) -> str:
        """How much a space may be better, for all that these rows can tell."""
        gains = [s for s in self.finished if s.difference and s.difference.mean > 0]
        if not gains:
            return "其他空间的得分都不更高。" if language == "zh" else "No other scored higher."
        most = max(gains, key=lambda s: s.difference.mean if s.difference else 0.0)
        assert most.difference is not None
        gain, high = (self._points(value, language) for value in
                      (most.difference.mean, most.difference.high))  # fmt: skip
        if language == "zh":
            return f"最大的提高({most.result.name},{gain},至多约 {high})在噪声之内。"
        return f"The largest gain seen ({most.result.name}, {gain}, perhaps up to {high}) is noise."

    def _ties(self, top: Standing) -> Told:
        tied = []
        others = [s for s in self.finished if s is not top and s.result.name != self.reference]
        p = holm(np.array([difference(top.result, s.result, self.judge).p for s in others]))
        for s, adjusted in zip(others, p, strict=True):
            if adjusted >= SIGNIFICANT:
                tied.append(f"{s.result.name} ({s.result.n_dimensions})")
        if not others:
            return Told("", "")
        if not tied:
            return Told(
                "It is clearly better than every other space that was finished.",
                "它明显优于其他所有完成评估的空间。",
            )
        return Told(
            f"Not to be told apart from it: {', '.join(tied[:6])}"
            f"{f' and {len(tied) - 6} more' if len(tied) > 6 else ''}.",
            f"与它没有明显差别的:{'、'.join(tied[:6])}{f'等 {len(tied)} 个' * (len(tied) > 6)}。",
        )

    def _what(self, language: str) -> str:
        k = getattr(self.judge, "k", None)
        english = {
            "classification": f"a {k}-nearest-neighbour learner has a held-out accuracy of",
            "regression": f"a {k}-nearest-neighbour learner has a held-out R² of",
            "pairs": "the distance tells held-out pairs apart with an AUC of",
            "none": f"of a held-out row's {k} nearest neighbours it keeps",
        }
        chinese = {
            "classification": f"{k} 近邻学习器的留出准确率",
            "regression": f"{k} 近邻学习器的留出 R²",
            "pairs": "距离区分留出样本对的 AUC",
            "none": f"留出样本的 {k} 个近邻的保留比例",
        }
        return (chinese if language == "zh" else english)[self.judge.task]

    def _where(self, language: str) -> str:
        if self.reference == "raw":
            return "原始空间" if language == "zh" else "the raw space"
        return self.reference

    def _points(self, gain: float, language: str) -> str:
        if not self.judge.is_share:
            return f"{gain:.3f}"
        points = f"{100 * gain:.1f}"
        return f"{points} 个百分点" if language == "zh" else f"{points} points"

    def _rows(self) -> str:
        if self.judge.task == "pairs":
            return counted(len(self.judge.split.folds[0].train), "pair") + " to learn from"
        return counted(len(self.judge.X), "row")

    def show(self, value: float) -> str:
        """A score as people read it."""
        return show_score(value, self.judge)


def show_score(value: float, judge: Judge) -> str:
    """A score as people read it."""
    if judge.is_share:
        return f"{100 * min(max(value, 0.0), 1.0):.1f} %"
    return f"{min(value, 1.0):.3f}"


def counted(n: int, what: str) -> str:
    """1 row, 2 rows."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _p(p: float | None) -> str:
    return "?" if p is None else "< 0.001" if p < 0.001 else f"= {p:.3f}"
