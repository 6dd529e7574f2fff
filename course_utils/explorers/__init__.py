"""Interactive views, each a class that a notebook shows by naming it; those that run a network need a kernel."""

from course_utils.explorers.attention_steps import AttentionSteps
from course_utils.explorers.cache_stepper import CacheStepper
from course_utils.explorers.cost import CostExplorer
from course_utils.explorers.gradient_flow import GradientFlow
from course_utils.explorers.head_viewer import HeadViewer
from course_utils.explorers.lstm_cell import LSTMUnit
from course_utils.explorers.mask_builder import MaskBuilder
from course_utils.explorers.positions import Positions
from course_utils.explorers.scaling import DotProductScale
from course_utils.explorers.soft_lookup import SoftLookup
from course_utils.explorers.translator import Translator
from course_utils.explorers.word_speaker import WordSpeaker

__all__ = [
    "AttentionSteps",
    "CacheStepper",
    "CostExplorer",
    "DotProductScale",
    "GradientFlow",
    "HeadViewer",
    "LSTMUnit",
    "MaskBuilder",
    "Positions",
    "SoftLookup",
    "Translator",
    "WordSpeaker",
]
