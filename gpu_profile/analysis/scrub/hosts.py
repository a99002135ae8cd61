"""Tell host names from names of modules, kernels and files.

A host's name and a module's path have one form: `node1.lab.tech`, `layer1.conv.weight`. A list
all top domains (https://data.iana.org/TLD) does not part them: `zero`, `box`, `map` and `prod`
are on it and are names of code, and a cluster's own domain is on no list. So the form decides where
only a machine can have it, and what stands beside the name decides elsewhere.
"""

import re

_LABEL = r"[^\W_](?:[\w-]{0,61}\w)?"
_TOP_LABEL = r"(?:[A-Za-z]{2,24}|xn--[a-z0-9-]{2,59})"
_END = r"(?![\w-]|\.\w|\()"
DOTTED = re.compile(rf"(?<![\w.<>/$-])(?<!::){_LABEL}(?:\.{_LABEL}){{0,12}}\.{_TOP_LABEL}{_END}")
"""A name of two labels or more; the last has letters only (RFC 3696, section 2)."""
_FILE_ENDINGS = (
    "py pyc pyx pyi so cu cuh cc cpp cxx c h hpp rs go ts js sh jl log txt json jsonl yaml yml toml"
    " cfg conf ini csv tsv gz tar zip bin pt pth ckpt safetensors onnx npy npz parquet sqlite db"
    " nsys rep qdstrm html md whl ko dll exe out err pid lock ipynb"
)
_FILES = frozenset(_FILE_ENDINGS.split())
_COMMON_TOPS = (
    "com net org edu gov mil io ai cloud dev internal local localdomain lan corp intra intranet"
    " home private cluster example de uk fr jp cn kr eu ch aws"
)
_TOPS = frozenset(_COMMON_TOPS.split())
"""With one of these three labels need nothing beside them."""
_STRONG = re.compile(
    r"(?i)(?:\b(?:host|hostname|server|peer|addr|address|endpoint|master|nodelist|dns)[ =:]+"
    r"|\b(?:connect|connected|connecting|connection|bind|bound|listen|listening|resolve|ssh|ping)"
    r"(?: (?:to|with|at|on|from))? |://|@)$"
)
_WEAK = re.compile(r"(?i)\b(?:on|at|from|to|via|by|node|machine|worker|of)[ =:]+$")
_PORT = re.compile(r":(?:443|\d{4,5})\b")
_CAMEL = re.compile(r"[a-z][A-Z]")
_REACH = 24  # letters before a name; the longest context above is shorter


def is_host(match: re.Match[str], *, everywhere: bool = False) -> bool:
    """Whether a match of DOTTED is a host's name, by its form and by what stands beside it.

    `everywhere`: in facts about a machine and in command lines every name of three labels is one.
    """
    labels = match[0].split(".")
    if labels[-1].lower() in _FILES or _CAMEL.search(match[0]) or any(map(str.isdigit, labels[1:])):
        return False
    before = match.string[max(0, match.start() - _REACH) : match.start()]
    if _STRONG.search(before) or _PORT.match(match.string, match.end()):
        return True
    if len(labels) < 3:
        return False
    if labels[-1].lower() in _TOPS:
        return True
    if everywhere:
        return "_" not in match[0] and not before.endswith("-m ")
    return _looks_like_machine(labels[0]) or (bool(_WEAK.search(before)) and "-" in match[0])


def _looks_like_machine(label: str) -> bool:
    """`dgx-a100-63` is a machine: a module's name has no hyphen, an HLO's name no digits there."""
    return "-" in label and any(map(str.isdigit, label))
