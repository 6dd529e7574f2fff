"""Interactive views, each a class that a notebook shows by naming it; the translator alone needs a kernel."""

from course_utils.explorers.attention_steps import AttentionSteps
from course_utils.explorers.gradient_flow import GradientFlow
from course_utils.explorers.lstm_cell import LSTMUnit
from course_utils.explorers.scaling import DotProductScale
from course_utils.explorers.soft_lookup import SoftLookup
from course_utils.explorers.translator import Translator

__all__ = ["AttentionSteps", "DotProductScale", "GradientFlow", "LSTMUnit", "SoftLookup", "Translator"]
