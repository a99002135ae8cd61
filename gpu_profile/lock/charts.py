"""The lock's section of the helm chart that KUBE_INJECTOR names: its address and SHA-256."""

from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.kubernetes.injector_charts import Generation, find_generation
from gpu_profile.lock.file import Lock, LockPart
from gpu_profile.pins.http import Fetch, fetch_sha256
from gpu_profile.settings.settings import Settings

_SECTION, _URL, _SHA256 = "injector", "CHART_URL", "CHART_SHA256"


def resolve_chart(settings: Settings, fetch: Fetch) -> Lock:
    """Return the section with the SHA-256 of the chart today; empty without KUBE_INJECTOR."""
    injector = settings.of(KubernetesSettings).injector
    if injector == "none":
        return {}
    url = find_generation(injector).chart
    pinned = {_URL: url, _SHA256: fetch_sha256(fetch, url)}
    return {_SECTION: LockPart({"KUBE_INJECTOR": injector}, pinned)}


def pinned_chart(lock: Lock, kind: Generation, chart: str = "") -> str:
    """Return the SHA-256 that the lock has for this chart, or ""."""
    pinned = lock.get(_SECTION, LockPart()).pinned
    return pinned.get(_SHA256, "") if pinned.get(_URL) == (chart or kind.chart) else ""
