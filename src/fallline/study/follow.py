"""Imported first by the process server: it dies with its driver, also while it imports torch.

The server looks for its driver only between requests, and its first imports take seconds.
Elsewhere than on Linux the server then ends when they are done.
"""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1

if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
