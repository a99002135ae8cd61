"""NVTX ranges in a domain of our own, through ctypes. Python 3.8, stdlib only.

NVTX is a protocol and no library: a program loads the tool's library, whose path the tool sets in
NVTX_INJECTION64_PATH, and calls its InitializeInjectionNvtx2 with a function that returns tables.
The tool writes its own functions into the slots of these tables. Layouts and numbers are those of
NVTX 3 (nvToolsExt.h and nvtxDetail/nvtxTypes.h of
https://github.com/NVIDIA/NVTX/tree/release-v3/c/include/nvtx3).
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

# NvtxExportTableID, NvtxCallbackModule and NvtxCallbackIdCore2 of nvtxTypes.h
_CALLBACKS, _VERSION_INFO = 1, 3
_CORE2 = 5
_SIZES = {1: 16, 2: 9, 3: 16, 4: 7, _CORE2: 16, 6: 7}
"""Slots of each module's table. nsys refuses a program that lacks one of the modules."""
_MARK, _PUSH, _POP, _REGISTER_STRING, _DOMAIN_CREATE = 1, 4, 5, 10, 12
_VERSION = 3
_INT64, _REGISTERED = 2, 3  # NVTX_PAYLOAD_TYPE_INT64, NVTX_MESSAGE_TYPE_REGISTERED


class Attributes(ctypes.Structure):
    """nvtxEventAttributes_v2: 48 bytes with a message and a number."""

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_int64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_void_p),
    )


_ExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_ModuleTable = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
)
_SetVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
# PYFUNCTYPE keeps the interpreter's lock: releasing it would let another thread run at each range.
_Push = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Mark = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Pop = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_Make = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_MakeDomain = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)


class _Callbacks(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("module_table", _ModuleTable))


class _VersionInfo(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("set_version", _SetVersion),
    )


class _Table:
    """One module's functions, and the slots that the tool writes them through."""

    def __init__(self, size: int) -> None:
        self.functions = (ctypes.c_void_p * size)()
        width = ctypes.sizeof(ctypes.c_void_p)
        first = ctypes.addressof(self.functions)
        # Slot 0 and the one after the last are null, as in nvtxImpl.h.
        slots = (first + number * width for number in range(1, size))
        self.slots = (ctypes.c_void_p * (size + 1))(None, *slots, None)


class _Tables:
    """The tables that the tool fills. They must live as long as the process."""

    def __init__(self) -> None:
        self._modules = {number: _Table(size) for number, size in _SIZES.items()}
        self.functions = self._modules[_CORE2].functions
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _ModuleTable(self._module_table))
        self._version = _VersionInfo(
            ctypes.sizeof(_VersionInfo), _VERSION, 0, _SetVersion(lambda _version: None)
        )
        self.export = _ExportTable(self._export)

    def _export(self, number: int) -> int | None:
        tables: dict[int, Any] = {_CALLBACKS: self._callbacks, _VERSION_INFO: self._version}
        return ctypes.addressof(tables[number]) if number in tables else None

    def _module_table(self, module: int, table: Any, size: Any) -> int:  # noqa: ANN401 - pointers
        if module not in self._modules:
            return 0
        if size:
            size[0] = _SIZES[module]
        if table:
            table[0] = ctypes.addressof(self._modules[module].slots)
        return 1


class Domain:
    """An NVTX domain. `push` and `mark` take the address of Attributes.

    `pop` ends this thread's last range.

    Registered strings and Attributes are kept for ever: the tool may read them later.
    """

    def __init__(self, functions: Any, name: str) -> None:  # noqa: ANN401 - a ctypes array
        self._register = _Make(functions[_REGISTER_STRING])
        self._mark = _Mark(functions[_MARK]) if functions[_MARK] else None
        self._handle = _MakeDomain(functions[_DOMAIN_CREATE])(name.encode())
        self._kept: list[Attributes] = []
        # Not methods: a frame more for each range takes as long as the call of an empty tool.
        self.push = functools.partial(_Push(functions[_PUSH]), self._handle)
        self.pop = functools.partial(_Pop(functions[_POP]), self._handle)

    def make(self, message: str) -> Attributes:
        """Return the attributes of a range with this message."""
        handle = self._register(self._handle, message.encode("utf-8", "replace"))
        attributes = Attributes(
            version=_VERSION,
            size=ctypes.sizeof(Attributes),
            message_type=_REGISTERED,
            message=handle,
        )
        self._kept.append(attributes)
        return attributes

    def mark(self, address: int) -> None:
        if self._mark is not None:
            self._mark(self._handle, address)


def number(attributes: Attributes, value: int) -> None:
    """Give the range a number: nsys shows it in the column int64Value."""
    attributes.payload_type = _INT64
    attributes.payload = value


_kept: list[object] = []


def open_domain(name: str) -> Domain | None:
    """Return the domain, or None if no tool listens."""
    path = os.environ.get("NVTX_INJECTION64_PATH", "")
    # NVTX_INJECTION64_PATH names a library for 64-bit programs.
    if not path or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    tables = _Tables()
    tool = ctypes.CDLL(path)
    tool.InitializeInjectionNvtx2.argtypes = (_ExportTable,)
    if not tool.InitializeInjectionNvtx2(tables.export) or not tables.functions[_PUSH]:
        return None
    _kept.extend((tables, tool))
    return Domain(tables.functions, name)
