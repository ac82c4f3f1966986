"""The experiment file: from text to an Experiment, with every mistake told by its line."""
