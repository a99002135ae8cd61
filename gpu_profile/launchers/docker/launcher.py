"""Launcher `docker`: jobs in a container of the local Docker Engine."""

import functools
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from gpu_profile.command import ENGINE, Command, Steps, make_command, make_engine_command
from gpu_profile.declared.check import Check
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.doctor import fix_engine
from gpu_profile.doctor.engine import check_engine
from gpu_profile.engine import (
    carrier_volume,
    compose,
    container,
    engine_answers,
    image_programs,
    probe,
)
from gpu_profile.errors import SettingsError
from gpu_profile.image import embedded_base
from gpu_profile.job import FINALISE_S, REPORTS_INSIDE, TOOLS, Job, Mount, NsysPlan, Tool
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import Carrying, ImageFrom, LauncherDefaults, Repair
from gpu_profile.launchers.agent import job_directory, windows
from gpu_profile.launchers.docker import own_directory
from gpu_profile.launchers.docker.status import read_own_status
from gpu_profile.manifest.compose import OVERRIDE, ComposeService
from gpu_profile.nsys import export as nsys_export
from gpu_profile.nsys.help_answer import ask_command
from gpu_profile.nsys.rank_wrapper import local_arguments
from gpu_profile.nsys.recorder import Window, WindowRequest, is_armed
from gpu_profile.settings.settings import Settings

_HELP = ("nsys", "profile", "--help")
_NO_ENGINE = "No usable Docker Engine here. To install and start one"
_CARRIED, _PLAIN = _FOLDERS = "container", "image"
"""The folder of a run directory that a job to which our nsys is carried sees, or another that has a
user of its own: all users may write there, and nobody else gets through the run directory."""
_WITH_OWNER = 'report=$1 output=$2; shift 2; "$@" && chown --reference="$report" "$output"'
"""The container's root writes the export. chown gives it the report's owner, also where a
rootless engine maps root to this user."""


@dataclass(frozen=True, kw_only=True)
class DockerLauncher(LauncherDefaults):
    """Runs a job in a container with the run id as its name. The container stays until cleanup."""

    name: ClassVar[str] = "docker"
    images: ClassVar[ImageFrom] = ImageFrom.ENGINE
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.ENGINE})
    reports_inside: ClassVar[str] = REPORTS_INSIDE
    one_node: ClassVar[bool] = True
    carrying: ClassVar[Carrying] = Carrying.VOLUME
    tools: ClassVar[frozenset[Tool]] = frozenset(TOOLS)
    drills: ClassVar[bool] = True
    image: ImageRef
    report_dir: Path
    options: tuple[str, ...] = ()
    hostname: str = ""
    umask: int = 0o022
    owner: str = ""
    """`uid:gid` that gets the reports, such as `1000:1000`; empty where root may keep them."""
    service: ComposeService | None = None
    """The service of a user's compose file that a job runs in place of an image's command."""
    carrier_image: ImageRef | None = None
    """The image of ours whose nsys other images get; None where `image` is that."""
    agent: job_directory.Agent = field(
        default_factory=lambda: job_directory.Agent(python=sys.executable)
    )

    @classmethod
    def from_settings(cls, settings: Settings) -> "DockerLauncher":
        has_hostname = settings.network not in {"host", "none"}
        return cls(
            image=settings.image_ref,
            carrier_image=settings.carrier_ref,
            report_dir=settings.report_dir.absolute(),
            options=container.list_placement_options(settings),
            hostname=platform.node().partition(".")[0] if has_hostname else "",
            owner=own_directory.get_owner(),
            umask=own_directory.get_umask(),
        )

    def gpus(self) -> Steps[int | None]:
        """Return this machine's number of GPUs, or 0 if the engine has no `nvidia` runtime."""
        return (yield from image_programs.count_gpus())

    def doctor(self) -> Steps[tuple[Check, ...]]:
        """Return the checks of the engine, and of the embedded base's age if an engine answers."""
        engine = yield from probe.probe_engine()
        if not engine.server:
            return check_engine(engine)
        base = yield from embedded_base.check_age(datetime.now(timezone.utc), str(self.image))
        return (*check_engine(engine), *base)

    def repair(self, *, is_root: bool, has_sudo: bool) -> Steps[Repair | None]:
        """Return the commands that install and start an engine; None if no package helps."""
        commands = yield from fix_engine.plan_fix((yield from probe.probe_engine()))
        if not commands:
            return None
        commands = fix_engine.for_user(commands, is_root=is_root, has_sudo=has_sudo)
        return Repair(reason=_NO_ENGINE, commands=commands)

    def identity(self, job: Job) -> Steps[str]:
        return (yield from image_programs.get_image_id(str(self.image)))

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return a job of an image that is not ours with nsys in a volume.

        Where torch.profiler records, any image's job gets our agent, and runs it by its Python.
        """
        ours = self.carrier_image or self.image
        if str(ours) == str(self.image) and not wanted and not job.is_by_torch:
            return job
        config = yield from carrier_volume.read_config(self.image)
        if job.is_by_torch:
            carrier = yield from carrier_volume.bring_agent(self.agent.root, self.image)
        elif not wanted and carrier_volume.is_ours(config):
            return job
        else:
            carrier = yield from carrier_volume.fill_volume(ours)
            yield from carrier_volume.check_container(carrier, self.image, self.options)
        # The command of a service has the image's entrypoint already.
        return carrier_volume.carry(job, carrier, {} if self.service else config)

    def probe(self, job: Job) -> Steps[str]:
        if job.carrier:
            options = carrier_volume.mount_options(job.carrier, job.carrier.nsys)
            words = (ENGINE, "run", "--rm", "--pull=never", "--network=none", *options)
            return ask_command(make_command(*words, str(self.image), "profile", "--help"))
        ask = make_command(*image_programs.make_program_words(self.image, (), *_HELP))
        return ask_command(ask, f"--carry brings another nsys to {self.image}")

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        folder = self._mount_reports(job).source
        if folder.name in _FOLDERS:
            made = yield make_command("mkdir", "-m", "1777", str(folder))
            job_directory.check_agent_result(made, f"making a folder for {job.name}")
        if self.service:
            run = yield from self._write_override(self.service, job, plan)
        else:
            rootless = bool(job.workdir and self.owner) and (yield from container.is_rootless())
            words = self._run(job, plan, own_directory.list_user_options(job, self.owner, rootless))
            run = Command(argv=words, env=job.env, secrets=frozenset(job.env))
        yield from container.start_detached(
            run,
            job.name,
            again=f"`invoke fetch --job {job.name}` goes on if it does",
            name_in_use="Run it again in a second, or give it another --name",
        )
        return job.name

    def _write_override(self, service: ComposeService, job: Job, plan: NsysPlan) -> Steps[Command]:
        """Write our file, which compose reads after the user's. Returns the service's start."""
        override = self.report_dir / job.name / OVERRIDE
        write = make_command("tee", "--", str(override), stdin=self.render_override(job, plan))
        job_directory.check_agent_result((yield write), f"writing {override}")
        return compose.run_service(service.file, override, service.name, job.name)

    def with_service(self, service: ComposeService) -> "DockerLauncher":
        """Return the launcher that runs a service of a compose file, which names its options."""
        return replace(self, service=service, options=())

    def render_override(self, job: Job, plan: NsysPlan) -> str:
        """Return what docker compose reads after the user's file; "" without a service."""
        if self.service is None:
            return ""
        reports = self._mount_reports(job)
        return self.service.make_override(job, plan, reports, container.RUN_LABEL)

    def check_job(self, job: Job, plan: NsysPlan) -> Steps[None]:
        """Raise an error if the command names a file of this machine that the container lacks."""
        if plan.needs_privileges:
            own_directory.refuse_privileges(job, self.owner)
        if is_armed(job) and not job.carrier:
            yield from image_programs.require_armable(self.image)
        if self.service is None:  # a compose file says itself what its service sees
            yield from own_directory.check_local_paths(job, self.image, self.options)

    def _run(self, job: Job, plan: NsysPlan, user: tuple[str, ...]) -> tuple[str, ...]:
        """Return the job's `docker run` words.

        `--env=NAME` without a value: values reach the container by the client's environment and
        stand in no process list.
        """
        name = [f"--hostname={self.hostname}"] if self.hostname else []
        rights = ["--cap-add=SYS_ADMIN"] if plan.needs_privileges else []
        carried = carrier_volume.mount_options(job.carrier) if job.carrier else ()
        _, *program = job.profile_words if job.carrier else ("", *job.profile_words)
        return (
            *(ENGINE, "run", "--detach", "--pull=never", f"--name={job.name}"),
            f"--label={container.RUN_LABEL}={job.name}",
            *name,
            *(container.mount_option(mount) for mount in (self._mount_reports(job), *job.mounts)),
            *(f"--env={name}" for name in sorted(job.env)),
            *container.gpu_options(job.resources.gpus_per_node),
            *rights,
            *(*user, *carried, *self.options, str(self.image), *program),
            *local_arguments(own_directory.with_umask(job, self.umask), plan, output=_inside(job)),
        )

    def status(self, job_id: str) -> Steps[JobStatus]:
        """Return the container's state, UNKNOWN while the engine does not answer.

        Raises SettingsError if `profile` did not start this container.
        """
        result = yield container.inspect_container(job_id)
        if engine_answers.is_engine_away(result):
            reason = "the Docker Engine does not answer"
            patience_s = 0 if engine_answers.has_hung(result) else engine_answers.AWAY_S
            return JobStatus(state=JobState.UNKNOWN, reason=reason, patience_s=patience_s)
        return read_own_status(job_id, result)

    def require_own(self, job_id: str) -> Steps[None]:
        """Raise SettingsError unless the container's run directory is in this REPORT_DIR.

        `fetch` copies nothing: the container writes its reports there.
        """
        answer = yield from engine_answers.ask_patiently(container.inspect_mounts(job_id))
        source = container.parse_mounts(answer).get(f"{REPORTS_INSIDE}/{job_id}")
        directory = (self.report_dir / job_id).resolve()
        if source and source.resolve() not in (directory, *(directory / name for name in _FOLDERS)):
            what = f"docker://{job_id} writes its reports to {source}"
            raise SettingsError(what, f"Add --set REPORT_DIR={source.parent}")

    def _require_started(self, job_id: str) -> Steps[None]:
        """Raise SettingsError unless there is such a container, which `profile` started."""
        inspect_result = yield from engine_answers.ask_patiently(
            container.inspect_container(job_id)
        )
        read_own_status(job_id, inspect_result)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        return container.follow_logs(job_id, follow=follow)

    def get_variables(self, job_id: str) -> Steps[Mapping[str, str]]:
        return (yield from container.get_variables(job_id))

    def stop(self, job_id: str) -> Steps[None]:
        yield from self._require_started(job_id)
        # Docker's own 10 s would kill an nsys at work on its report.
        stop = make_engine_command("stop", f"--time={FINALISE_S}", job_id)
        stopped = yield from engine_answers.ask_patiently(stop)
        engine_answers.check_engine_result(stopped, f"stopping {job_id}")

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        yield from self._require_started(job_id)
        call = functools.partial(make_engine_command, "exec", job_id, *windows.IN_CONTAINER)
        inside = f"{REPORTS_INSIDE}/{job_id}"
        return (yield from windows.record_window(call, inside, request))

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        """Give the reports to this user. They are in the mounted run directory already.

        In a rootless engine the container's root is this user: chown would give the reports to a
        subordinate uid. Those in a folder of the container's are moved up into `to`.
        """
        if self.owner and not (yield from container.is_rootless()):
            # A link that the job made could lead to a file of root's.
            words = ("chown", "--recursive", "--no-dereference", self.owner, str(to))
            chown_result = yield from engine_answers.ask_patiently(self._call_tool(to, *words))
            engine_answers.check_engine_result(chown_result, f"giving {to} to {self.owner}")
        for folder in (to / name for name in _FOLDERS if (to / name).is_dir()):
            take = self.agent.call("job.py", "take", str(folder), str(to))
            job_directory.check_agent_result((yield take), f"taking the reports of {job_id}")

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        argv = nsys_export.export_command(("nsys",), report, output).argv
        if self.owner:
            argv = ("sh", "-c", _WITH_OWNER, "sh", str(report), str(output), *argv)
        return self._call_tool(report.parent, *argv)

    def cleanup(self, job_id: str) -> Steps[None]:
        yield from self._require_started(job_id)
        remove = make_engine_command("container", "rm", "--force", job_id)
        removed = yield from engine_answers.ask_patiently(remove)
        engine_answers.check_engine_result(removed, f"removing {job_id}")

    def _mount_reports(self, job: Job) -> Mount:
        """Mount the job's run directory only. REPORT_DIR itself may be a directory such as /tmp."""
        folder = _CARRIED if job.carrier and not job.is_by_torch else _PLAIN
        place = f"{job.name}/{folder}" if job.carrier or self.service else job.name
        return Mount(source=self.report_dir / place, target=_inside(job))

    def _call_tool(self, directory: Path, *argv: str) -> Command:
        """Return the call of a program of the job's image, or of ours where that was carried to."""
        is_carried = (directory / _CARRIED).is_dir()
        image = self.carrier_image if is_carried and self.carrier_image else self.image
        mounts = (Mount(source=directory, target=str(directory)),)
        return make_command(*image_programs.make_program_words(image, mounts, *argv))


def _inside(job: Job) -> str:
    return f"{REPORTS_INSIDE}/{job.name}"
