"""Interactive views that compute in the browser; each is a class that a notebook shows by naming it."""

from course_utils.explorers.gradient_flow import GradientFlow
from course_utils.explorers.lstm_cell import LSTMUnit

__all__ = ["GradientFlow", "LSTMUnit"]
