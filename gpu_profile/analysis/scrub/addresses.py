"""Find and hide addresses in text: IPv4, IPv6, MAC, host names, storage buckets, AWS ARNs."""

import ipaddress
import re

from gpu_profile.analysis.scrub.hosts import DOTTED, is_host

HOST, BUCKET, ARN = "<host>", "<bucket>", "<arn>"

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![\w.-]|\.\d)"
_LOCAL_IPV4 = re.compile(
    rf"(?<![\d.])(?=10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)"
    rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![\d.])"
)
_BEFORE = (
    r"[@=/\[(\"',<>]|\b(?:ip|addr|address|host|server|peer|node|from|to|via|at|on|connect"
    r"|connecting|connected|bind|master)[ :=]+"
)
_PUBLIC_IPV4 = re.compile(
    rf"(?i)({_BEFORE}|^(?=[\d.]+(?:$|[:/])))(?!127\.|0\.)({_IPV4})(?=$|[:/\])\"',;\s<>])"
)
_WITH_PORT = re.compile(rf"(?<![\w.-])(?!127\.|0\.){_IPV4}(?=:\d{{2,5}}\b)")
_ANY_IPV4 = re.compile(rf"(?<![\w.-])(?!127\.|0\.){_IPV4}")
_IPV6 = re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:|::)[0-9a-f:]*:[0-9a-f:.]*[0-9a-f]?(?![\w:])")
_MAC = re.compile(
    r"(?i)(?<![\w:])[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?![\w:])"
    r"|(?<![\w-])[0-9a-f]{2}(?:-[0-9a-f]{2}){5}(?![\w-])"
    # Cisco's form; with a letter, because three numbers of four digits can be a version.
    r"|(?<![\w.])(?=[\d.]*[a-f])[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![\w.])"
)
_INSTANCE = re.compile(r"(?<![\w-])i-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![\w-])")
_PADDED_IPV4 = re.compile(r"(?<![\w.-])(?=0|\d+\.0\d)\d{3}(?:\.\d{3}){3}(?![\w.-])")
_LOCAL_NAME = re.compile(
    r"(?i)\bip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w-]+)*"
    r"|(?<![\w.-])[\w-]+\.(?:internal|local|localdomain|lan|corp)(?![\w-]|\.\w)"
)
# A label of a host name has 63 characters at most (RFC 1035); `*` took 6 s for 64 kB of `x-x-x-`.
NODE_LIST = re.compile(r"\b[A-Za-z][\w-]{0,62}\[\d+(?:[-,]\d+)*\](?:[\w-]*(?:\.[\w-]+)*)")
"""A Slurm node list, e.g. `gpunode[01-08,11]`."""
_BUCKET = re.compile(
    r"(?i)\b(s3a?|s3n|gs|gcs|abfss?|wasbs?|az|oss|cos|hdfs|minio|r2|b2|oci|swift|dbfs)"
    r"://(?!<)[^\s\"'<>,;]+"
)
_ARN = re.compile(r"\barn:aws[\w-]*:[^\s\"'<>,;]+")
_SITE = re.compile(
    r"(?i)(\b[a-z][a-z0-9+.-]{0,20}://(?:<secret>@)?)"
    r"(?!localhost\b|127\.|0\.0\.0\.0)[^\s/:@\[\]\"'<>,;?#]+"
)
"""The host of any URL."""
_AFTER_FLAG = re.compile(
    r"(?i)(--?(?:host|hostname|nodelist|nodes?|addr|address|master[_-]addr|server|endpoint"
    r"|[\w-]{1,32}[_-](?:host|endpoint|addr|address))(?:[ =]))"
    r"(?!<|localhost\b|127\.|-)[A-Za-z][^\s:,;\"'<>]*"
)
_AFTER_PROGRAM = re.compile(
    r"((?<![\w-])(?:ssh|sftp|mosh|telnet|ping|nslookup)\s+(?:[\w.-]+@)?)"
    r"(?!-|<|localhost\b|127\.)[A-Za-z][^\s:;|&\"'<>]*"
)


def hide_storage(text: str) -> str:
    """The text with buckets as `s3://<bucket>` and AWS names as `<arn>`."""
    return _ARN.sub(ARN, _BUCKET.sub(rf"\1://{BUCKET}", text))


def hide_addresses(text: str, *, everywhere: bool = False) -> str:
    """The text with addresses replaced by `<host>`.

    `everywhere` is for fields that describe a machine or a command line. It also hides all IPv4
    addresses and Slurm node lists; in other text four numbers can be a version, and `x[0,1]` need
    not be a list of nodes.
    """
    if ":" in text:
        text = _SITE.sub(rf"\1{HOST}", _MAC.sub(HOST, _IPV6.sub(_hide_ipv6, text)))
    if "." in text or "-" in text:
        text = DOTTED.sub(lambda m: HOST if is_host(m, everywhere=everywhere) else m[0], text)
        text = _LOCAL_NAME.sub(HOST, _PADDED_IPV4.sub(HOST, _LOCAL_IPV4.sub(HOST, text)))
        text = _INSTANCE.sub(HOST, _MAC.sub(HOST, text))
        text = _WITH_PORT.sub(HOST, _PUBLIC_IPV4.sub(rf"\1{HOST}", text))
    if everywhere:
        text = _AFTER_PROGRAM.sub(rf"\1{HOST}", _AFTER_FLAG.sub(rf"\1{HOST}", text))
        text = NODE_LIST.sub(HOST, _ANY_IPV4.sub(HOST, text))
    return text


def _hide_ipv6(match: re.Match[str]) -> str:
    return HOST if is_machine_ipv6(match[0]) else match[0]


def is_machine_ipv6(text: str) -> bool:
    """Whether the text is a machine's address: `fe80::1`, `2001:db8::7`; not C++'s `dead::beef`."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    is_full_length = text.count(":") == 7 and "::" not in text
    return not address.is_loopback and (
        is_full_length or bool(re.match(r"(?i)(?:fe[89ab]|f[cd]|[23][0-9a-f])[0-9a-f]{1,2}:", text))
    )
