from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any


class Context(dict[str, Any]):
    pass


_current: ContextVar[Context] = ContextVar("current_context", default=Context())


def get_current() -> Context:
    return _current.get()


def get_value(key: str, context: Context | None = None) -> Any:
    return (get_current() if context is None else context).get(key)


def set_value(key: str, value: Any, context: Context | None = None) -> Context:
    return Context({**(get_current() if context is None else context), key: value})


def attach(context: Context) -> Token[Context]:
    return _current.set(context)


def detach(token: Token[Context]) -> None:
    _current.reset(token)
