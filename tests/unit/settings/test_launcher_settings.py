"""Settings of launchers: typed fields in the launcher's own file, keys in its row."""

from pathlib import Path

import pytest

from gpu_profile.declared.key import Key
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.declared.launchers import LAUNCHER_KEYS, LAUNCHERS
from gpu_profile.declared.slurm_settings import SlurmSettings
from gpu_profile.declared.ssh_settings import SshSettings
from gpu_profile.errors import SettingsError
from gpu_profile.settings.settings import Settings, load_settings


def test_a_field_is_a_key_with_the_prefix_and_the_kind_of_its_type() -> None:
    keys = {key.name: key for key in SlurmSettings.make_keys()}
    assert keys["SLURM_TORCHRUN"] == Key(
        name="SLURM_TORCHRUN",
        doc="One task a node with torchrun, not one task a GPU",
        default=False,
        kind="bool",
    )
    assert keys["SLURM_CONTAINER"].choices == ("pyxis", "apptainer")
    assert keys["SLURM_TIME"].kind == "slurm-time"


def test_values_are_read_under_the_names_of_the_fields(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("SLURM_PARTITION=gpu\nSLURM_TORCHRUN=yes\nSSH_ARGS='-p 2222'\n")
    settings = load_settings(path, {"KUBE_REPORT_TO": "pvc:claim:/wd"}, ("SLURM_TIME=00:10:00",))
    slurm = settings.of(SlurmSettings)
    assert (slurm.partition, slurm.torchrun, slurm.time) == ("gpu", True, "00:10:00")
    assert settings.of(SshSettings).args == "-p 2222"
    assert settings.of(KubernetesSettings).report_to == "pvc:claim:/wd"
    assert settings.sources["SLURM_PARTITION"] == f"{path}:1"


def test_settings_without_a_file_have_the_defaults() -> None:
    assert Settings().of(SshSettings) == SshSettings()
    assert Settings().of(KubernetesSettings).hold == "3600"


def test_another_value_replaces_one_setting_alone() -> None:
    settings = load_settings(None, {"SLURM_DIR": "/shared"})
    changed = settings.with_launcher_value("SLURM_IMAGE", "team.sqsh").of(SlurmSettings)
    assert (changed.image, changed.dir) == ("team.sqsh", "/shared")
    assert settings.of(SlurmSettings).image == ""


def test_kubernetes_launchers_share_one_list_of_keys() -> None:
    names = [key.name for key in LAUNCHER_KEYS]
    assert len(names) == len(set(names))
    assert LAUNCHERS["mpijob"].keys == LAUNCHERS["trainjob"].keys == KubernetesSettings.make_keys()


def test_a_bad_value_is_refused_with_its_place() -> None:
    with pytest.raises(SettingsError, match="environment: KUBE_HOLD is 'soon'"):
        load_settings(None, {"KUBE_HOLD": "soon"})
