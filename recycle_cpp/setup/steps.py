"""The set-up, in order: .venv, the wheel (stored or built), the package, the model, the trial."""

from collections.abc import Mapping
from dataclasses import dataclass

from recycle_cpp.errors import InstallError
from recycle_cpp.setup import environment
from recycle_cpp.setup.build import BuildPlan, build_wheel, plan_build, without_amx
from recycle_cpp.setup.layout import Layout, exclusive
from recycle_cpp.setup.machine import Machine, read_machine
from recycle_cpp.setup.patch import wanted_patch
from recycle_cpp.setup.progress import say, step
from recycle_cpp.setup.project import Stamp, read_project, read_stamp, write_stamp
from recycle_cpp.setup.selfcheck import Verdict, check_library
from recycle_cpp.setup.store import WheelStore


@dataclass(frozen=True)
class SetUp:
    """One run of the set-up."""

    layout: Layout
    environ: Mapping[str, str]
    plan: BuildPlan
    wanted: Stamp

    @property
    def store(self) -> WheelStore:
        """The wheels built earlier."""
        return WheelStore(self.layout.wheels)

    def is_done(self) -> bool:
        """Return whether an earlier run left nothing to do."""
        stamp = read_stamp(self.layout.stamp)
        if stamp is None or not stamp.covers(self.wanted) or not self.layout.python.exists():
            return False
        return environment.installed_key(self.layout, self.plan.version) is not None

    def run(self) -> None:
        """Do what is left to do, then write the stamp.

        Raises:
            InstallError: A step failed.
        """
        earlier = read_stamp(self.layout.stamp)
        dev = self.wanted.dev or bool(earlier and earlier.dev)
        environment.ensure_venv(self.layout, self.environ)
        environment.remove_stamp(self.layout)
        plan = self._first_plan()
        self._install_build(plan)
        environment.install_project(self.layout, dev=dev, environ=self.environ)
        environment.install_model(self.layout, self.environ)
        verdict = self._try(plan)
        stamp = Stamp(self.wanted.root, self.wanted.project, self.wanted.build_key, dev)
        write_stamp(self.layout.stamp, stamp, verdict.system_info)

    def _first_plan(self) -> BuildPlan:
        """Return the plan, without AMX if the build with it was thrown out earlier."""
        reason = self.store.rejection(self.plan.key)
        if reason is None or not self.plan.can_drop_amx:
            return self.plan
        say(f"AMX stays off: the build with it {reason}")
        return without_amx(self.plan)

    def _install_build(self, plan: BuildPlan) -> None:
        """Install the build of a plan unless it is installed, from the store or by building it."""
        if environment.installed_key(self.layout, plan.version) == plan.key:
            return
        build = self.store.find(plan.key)
        if build:
            say(f"llama.cpp: taking build {plan.key} made earlier ({plan})")
        else:
            say(f"llama.cpp: build {plan.key} for this machine ({plan}); takes some minutes, once")
            log = self.layout.logs / f"{plan.key}.log"
            build = self.store.add(
                plan.key,
                plan.inputs,
                lambda folder: build_wheel(plan, self.layout.python, folder, log, self.environ),
            )
        environment.install_wheel(self.layout, build, self.environ)

    def _try(self, plan: BuildPlan) -> Verdict:
        """Try the installed build; if a wide batch kills it and AMX is on, build once more without.

        Raises:
            InstallError: No build that works came out.
        """
        verdict = self._check()
        if verdict.failed_stage == "cpu" and verdict.signal_name and plan.can_drop_amx:
            say(f"build {plan.key} {verdict.reason}: building again with AMX off")
            self.store.reject(plan.key, verdict.reason)
            plan = without_amx(plan)
            self._install_build(plan)
            verdict = self._check()
        if verdict.ok:
            say(f"llama.cpp uses {verdict.features}")
            return verdict
        raise InstallError(f"llama.cpp build {plan.key} ({plan}) {verdict.reason}: {remedy(verdict)}")

    def _check(self) -> Verdict:
        with step("trying llama.cpp on a wide batch"):
            return check_library(self.layout, environment.model_file(self.layout), self.environ)


def remedy(verdict: Verdict) -> str:
    """Return what a user can do about a build that does not work."""
    if verdict.failed_stage == "gpu":
        return "check nvidia-smi, or run again with CMAKE_ARGS='-DLLAVA_BUILD=OFF -DGGML_CUDA=OFF'"
    if verdict.signal_name:
        return "run again with CMAKE_ARGS='-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF' (slower, safe)"
    return "run `make clean setup`"


def hint_about_gpu(machine: Machine) -> str | None:
    """Return one line if a GPU is here that the build cannot use, None if not."""
    if machine.gpus and not machine.can_use_cuda:
        return f"{machine.gpus[0]} is not used: install the CUDA toolkit (nvcc), then run this again"
    return None


def set_up(layout: Layout, environ: Mapping[str, str], *, dev: bool) -> None:
    """Make the checkout's .venv ready; return at once if it is.

    Args:
        layout: The paths.
        environ: The user's environment variables.
        dev: Whether the development tools are wanted as well.

    Raises:
        InstallError: A step failed; the message says which, where its log is, and what to do.
    """
    project = read_project(layout.root, extra=(environment.MODEL_PACKAGE,))
    machine = read_machine(environ)
    plan = plan_build(project.llama_version, machine, environ, wanted_patch(machine, environ))
    wanted = Stamp(str(layout.root), project.digest, plan.key, dev)
    setup = SetUp(layout, environ, plan, wanted)
    if setup.is_done():
        return
    with exclusive(layout.cache / "setup.lock", lambda: say("another set-up is running: waiting for it")):
        if setup.is_done():
            return
        if hint := hint_about_gpu(machine):
            say(hint)
        setup.run()
    say("ready")
