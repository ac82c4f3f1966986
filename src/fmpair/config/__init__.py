"""The experiment file: from text to an Experiment, with the line of every mistake."""
