"""Gantry moves big buffers between processes while your code keeps computing.

Producer sends; Consumer receives; Inbox has many senders; rpc has calls; pipe() is for children;
Group is for ranks that compute together; image() attaches what `gantry keep` keeps.
"""

try:
    from ._core import version as _version
except ModuleNotFoundError as _error:
    import pathlib as _pathlib

    _tree = _pathlib.Path(__file__).absolute().parents[2]  # of a build, which has python/gantry
    if (_tree / "CMakeCache.txt").exists():
        _why = f"this build has no Python extension; cmake --build {_tree} --target gantry_python"
    else:
        _why = "no extension is beside its modules; make build, and import it from build/release/python"
    raise ImportError(f"gantry: {_why}") from _error
except ImportError as _error:
    raise ImportError(
        f"gantry: its extension does not load ({_error}); it needs CPython 3.11 or later, and"
        " libgantry_c.so where it was when this package was made (or the package libgantry0)"
    ) from _error
from . import errors, rpc, tables, trace
from .errors import (
    Aborted,
    AlreadyExists,
    Busy,
    Closed,
    Error,
    Interrupted,
    InvalidArgument,
    NotFound,
    OutOfMemory,
    PeerGone,
    PeerMisbehaved,
    PermissionDenied,
    SystemRefused,
    TimedOut,
    TooLarge,
    Unsupported,
)
from .executor import ProcessPoolExecutor
from .groups import Collective, Group
from .images import Image, image
from .message import Message
from .pipes import PipeReader, PipeWriter, pipe
from .queues import JoinableQueue, Queue, SimpleQueue
from .receiving import Consumer, Inbox, stage_input
from .runtime import Runtime
from .sending import Producer, stage_output

__version__ = _version()
__all__ = [
    "Aborted", "AlreadyExists", "Busy", "Closed", "Collective", "Consumer", "Error", "Group",
    "Image", "Inbox", "Interrupted", "InvalidArgument", "JoinableQueue", "Message", "NotFound",
    "OutOfMemory", "PeerGone", "PeerMisbehaved", "PermissionDenied", "PipeReader", "PipeWriter",
    "ProcessPoolExecutor", "Producer", "Queue", "Runtime", "SimpleQueue", "SystemRefused",
    "TimedOut", "TooLarge", "Unsupported", "errors", "image", "pipe", "rpc", "stage_input", "stage_output",
    "tables", "trace",
]  # fmt: skip
