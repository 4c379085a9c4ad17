"""Memory that is kept for the next step instead of being handed back and fetched anew."""

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP = 2**30


def keep_freed_memory() -> bool:
    """Tell glibc not to return large blocks to the system; True if it understood.

    A training step allocates and frees the same large tensors each time. By default each comes fresh from the kernel,
    which fills it with zeros page by page, at the price of a tenth of the step.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, KEEP) and mallopt(M_TRIM_THRESHOLD, KEEP))
