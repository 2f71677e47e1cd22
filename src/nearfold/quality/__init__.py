"""How good a space is: arrays in, numbers out."""

from nearfold.quality.co_ranking import CoRanking, co_ranking
from nearfold.quality.held_out import HeldOut, held_out_score
from nearfold.quality.judge import SpaceQuality, judge_space
from nearfold.quality.neighborhoods import continuity, neighbor_overlap, trustworthiness
from nearfold.quality.reconstruction import reconstruction_error
from nearfold.quality.result import EXACT_ROWS, Quality
from nearfold.quality.shepard import Shepard, shepard
from nearfold.quality.stress import Stress, stress

__all__ = [
    "EXACT_ROWS",
    "CoRanking",
    "HeldOut",
    "Quality",
    "Shepard",
    "SpaceQuality",
    "Stress",
    "co_ranking",
    "continuity",
    "held_out_score",
    "judge_space",
    "neighbor_overlap",
    "reconstruction_error",
    "shepard",
    "stress",
    "trustworthiness",
]
