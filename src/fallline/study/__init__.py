"""The study engine: named questions, answered by cells, with computed verdicts."""
