"""The shows of `clearhead demo`, one for each task: text that the package makes, a training, and what came of it."""
