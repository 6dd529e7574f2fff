"""Interactive views that compute in the browser; each is a class that a notebook shows by naming it."""

from course_utils.explorers.gradient_flow import GradientFlow

__all__ = ["GradientFlow"]
