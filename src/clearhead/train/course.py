"""How far a run has come: from updates to progress, when the number of updates may be corrected on the way."""

from dataclasses import dataclass, replace

from clearhead.train.report import Correction


@dataclass(frozen=True)
class Course:
    """A number of updates, and where it was corrected; progress is a pure function of the step."""

    steps: int
    corrections: tuple[Correction, ...] = ()

    @property
    def total(self) -> int:
        """Updates there will be, as far as is known."""
        return self.corrections[-1].steps if self.corrections else self.steps

    def progress(self, step: int) -> float:
        """From 0 before the first update to 1 after the last, without jumps at corrections."""
        since, done, total = 0, 0.0, self.steps
        for correction in self.corrections:
            if correction.step <= step:
                since, done, total = correction.step, correction.progress, correction.steps
        return min(1.0, done + (1 - done) * (step - since) / max(1, total - since))

    def corrected(self, step: int, steps: int) -> "Course":
        """The course from here on with another number of updates."""
        correction = Correction(step, self.progress(step), max(steps, step))
        return replace(self, corrections=(*self.corrections, correction))


def fitting_steps(course: Course, step: int, seconds_left: float, seconds_per_step: float) -> int:
    """How many updates fit the time that is left; the present number, while it is near enough."""
    fits = step + max(1, int(seconds_left / seconds_per_step))
    return fits if abs(fits - course.total) > max(2, 0.02 * (course.total - step)) else course.total
