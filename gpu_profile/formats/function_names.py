"""Shorten the names of C++ functions: `elementwise_kernel<…direct_copy…>`."""

import re
from collections.abc import Iterator, Mapping, Sequence

_ANONYMOUS = re.compile(r"(<unnamed>|\(anonymous namespace\)|\{anonymous\})::")
_FUNCTION = re.compile(r"~?[A-Za-z_][\w:]*[<(]")
_MANGLED = re.compile(r"(?:St|L|K)?([1-9]\d{0,3})")
_OPEN, _CLOSE = "<([{", ">)]}"
_WORD = re.compile(r"[A-Za-z_]\w*(?!\w|::(?!operator\b)[A-Za-z_])")
_TYPES = frozenset(
    (
        *("float", "double", "half", "int", "long", "short", "char", "bool", "void"),
        *("unsigned", "signed", "auto", "const", "true", "false"),
    )
)
# These words are in every kernel that a framework generates, so they distinguish no kernels.
_PLUMBING = re.compile(
    r"(T\d*|array|tuple|operator|instance|lambda|detail|gpu_kernel_impl(_nocast)?|func_wrapper(_t)?"
    r"|[AB]?(Unary|Binary)Functor|\w*OffsetCalculator|(Load|Store)With(out)?Cast|ReduceOp"
    r"|TensorList\w*Metadata|TensorIterator\w*|enable_if(_t)?|type|Params|enable_\w+)"
)
_AFFIX = re.compile(
    r"^(launch_|CUDAFunctor(OnSelf|OnOther)?_)|(_kernel)?(_cuda)?(_impl)?$|Functor$"
)
_FEWEST = 4  # the shortest part of a template argument that is worth showing
# the characters that are parsed: a crafted name must not cost more time
_MOST_WORDS, _MOST_CHARACTERS = 8, 10_000


def shorten_names(texts: Sequence[str], width: int) -> Mapping[str, str]:
    """Shorten each text that is longer than `width` characters.

    Texts that would become equal, such as two GEMMs of one family, keep the part in which they
    differ.
    """
    short = {text: shorten_name(text, width) for text in dict.fromkeys(texts)}
    for tell_apart in (_by_words, _by_place):
        for group in _group_alike(short):
            short |= tell_apart(group, width)
    return short


def _group_alike(short: Mapping[str, str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for text, name in short.items():
        groups.setdefault(name, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def shorten_name(text: str, width: int) -> str:
    """Shorten `text` to at most `width` characters.

    Parameters are dropped first, then template arguments, then the middle of the rest.
    """
    if len(text) <= width:
        return text
    return next((name for name in _list_attempts(text, width) if len(name) <= width), text[:width])


def split_name(text: str) -> tuple[str, str]:
    """Return (function without namespaces, template arguments), or ("", "") if it is no function.

    `void at::native::reduce_kernel<128, 4>(T3)` gives ("reduce_kernel", "128, 4"). Of a mangled
    name only the function is read.
    """
    if text.startswith("_Z"):
        return _read_mangled(text), ""
    plain = _ANONYMOUS.sub("", text[:_MOST_CHARACTERS]).removeprefix("void ")
    if not _FUNCTION.match(plain):
        return "", ""
    name, arguments, depth = "", "", 0
    for character in plain:
        if depth == 0 and character == "(":
            break
        depth -= character in _CLOSE
        if depth:
            arguments += character
        elif character not in "<>":
            name += character
        depth += character in _OPEN
        if depth == 1 and character == "<":
            arguments = ""
    return name.rpartition("::")[2], arguments


def _read_mangled(text: str) -> str:
    """The function of `_ZN7cutlass6KernelI…`: the last of its names; of `_Z5relaxPKf` the only one.

    Kineto leaves names of more than 1,024 characters as they are, and nsys demangles them:
    https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling-structure
    """
    is_nested = text.startswith("_ZN")
    name, place = "", len("_ZN") if is_nested else len("_Z")
    while match := _MANGLED.match(text, place):
        place = match.end() + int(match[1])
        name = text[match.end() : place]
        if not is_nested:
            break
    return name


def telling_words(arguments: str) -> list[str]:
    """Return the template arguments that identify a kernel: `direct_copy` in PyTorch's copies."""
    words = [word for word in _WORD.findall(_without_parameters(arguments)) if word]
    telling = [w for w in words if not _PLUMBING.fullmatch(w) and w not in _TYPES]
    return list(dict.fromkeys(_AFFIX.sub("", word) or word for word in telling or words))[
        :_MOST_WORDS
    ]


def _without_parameters(text: str) -> str:
    """Return the name without text in brackets: casts, parameters and numbers of lambdas."""
    text_outside, depth = "", 0
    for character in text:
        depth += character in "([{"
        text_outside += character if not depth else ""
        depth -= character in ")]}" and depth > 0
    return text_outside


def _list_attempts(text: str, width: int) -> Iterator[str]:
    function, arguments = split_name(text)
    if function:
        yield from _with_words(function, telling_words(arguments), width)
        yield f"{function}<…>" if arguments else function
    yield _cut(function or text, width)


def _with_words(function: str, words: Sequence[str], width: int) -> Iterator[str]:
    """Return the function with as many of the words as fit, at least a part of the first."""
    for count in range(len(words), 0, -1):
        yield f"{function}<…{', '.join(words[:count])}…>"
    room = width - len(function) - len("<……>")
    if words and room >= _FEWEST:
        yield f"{function}<…{_cut(words[0], room)}…>"


def _cut(text: str, width: int) -> str:
    """Keep both ends of a text: GEMM names differ at the end as often as at the start."""
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _by_words(texts: Sequence[str], width: int) -> dict[str, str]:
    """Show the template arguments in which the texts differ: `reduce_kernel<…128, sum…>`."""
    names = [split_name(text) for text in texts]
    words = [dict.fromkeys(re.findall(r"\w+", arguments)) for _, arguments in names]
    common = set(words[0]).intersection(*words)
    short: dict[str, str] = {}
    for text, (function, arguments), template_words in zip(texts, names, words, strict=True):
        differing = [_AFFIX.sub("", word) or word for word in template_words if word not in common]
        telling = dict.fromkeys([*differing, *telling_words(arguments)])
        if not function or not differing:
            continue
        attempts = _with_words(function, list(telling)[:_MOST_WORDS], width)
        fitting = next((name for name in attempts if len(name) <= width), "")
        short |= {text: fitting} if fitting else {}
    return short


def _by_place(texts: Sequence[str], width: int) -> dict[str, str]:
    """Show the start of each text and what follows the part that all of them share."""
    letters = enumerate(zip(*texts, strict=False))
    same = next((place for place, column in letters if len(set(column)) > 1), len(min(texts)))
    head = split_name(texts[0])[0] or texts[0]
    keep = min(len(head), width // 2)
    tail = width - keep - 1
    starts = {text: max(0, min(same - tail // 4, len(text) - tail)) for text in texts}
    return {text: f"{head[:keep]}…{text[start : start + tail]}" for text, start in starts.items()}
