"""A corpus examined: how much there is, what is wrong with it, and the files without the faults.

It reads through the readers that training uses, so what it says holds for what training will see.
"""

from clearhead.doctor.diagnosis import Diagnosis, Fixed, examine, fix
from clearhead.doctor.findings import Finding
from clearhead.doctor.survey import Kind

__all__ = ["Diagnosis", "Finding", "Fixed", "Kind", "examine", "fix"]
