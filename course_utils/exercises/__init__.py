"""Exercises: `engine` checks answers, `lecture_NN` has the exercises of a lecture and `mistakes_NN_*` wrong answers."""
