"""Find and hide users in text: mail addresses, logins, the output of `id`."""

import re

USER = "<user>"

_MAIL = re.compile(
    # The end as a host's name has it: `memcpy@GLIBC_2.2.5` is a symbol's version.
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:(?:[^\W_](?:[\w-]{0,62})\.)+[A-Za-z]{2,24}(?![\w-])|(?=<host\d*>))"
)
_LOGIN = re.compile(r"(?<![\w.+@/-])[A-Za-z_][\w.-]{0,31}@(?=[A-Za-z][\w.-]*)")
_IDS = re.compile(r"\b((?:uid|gid|euid|egid)=\d+|groups=(?:\d+\([^()]*\),)*\d+)\([^()<]*\)")
_GROUP = re.compile(r"(?<=\d)\((?!<)[^()]*\)")
_VARIABLE = re.compile(
    r"\b((?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER)=[\"']?)(?![<$])[^\s\"';,<>]+"
)
_OPTION = re.compile(
    r"(?i)((?:(?<![\w-])(?:-u|--user|--proxy-user|--username|--login)[ =])[\"']?)"
    r"(?![<$-]|\d+(?:\D|$))[^\s\"':;,<>]+(?=$|[:\s\"'])(?!\.py)"
)


def hide_users(text: str, *, everywhere: bool = False) -> str:
    """The text with users replaced by `<user>`. `everywhere`: it is a command line or describes a
    machine, where `bob@gpu1` is a login.
    """
    if "@" in text:
        text = _MAIL.sub(_hide_mail, text)
        text = _LOGIN.sub(f"{USER}@", text) if everywhere else text
    if "=" in text:
        text = _VARIABLE.sub(rf"\1{USER}", _IDS.sub(_hide_ids, text))
    # `python -u train.py` and a password's user are the two meanings of -u.
    return _OPTION.sub(_hide_option, text) if everywhere or ":<secret>" in text else text


def _hide_mail(match: re.Match[str]) -> str:
    return f"{USER}@" if match[0].endswith("@") else f"{USER}@<host>"


def _hide_ids(match: re.Match[str]) -> str:
    return _GROUP.sub(f"({USER})", match[0])


def _hide_option(match: re.Match[str]) -> str:
    is_short = match[1].startswith("-u")
    names_user = not is_short or match.string.startswith(":", match.end())
    return f"{match[1]}{USER}" if names_user else match[0]
