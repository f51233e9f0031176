"""Every known way in which a repository can make git run a program; each plants a canary program in a Target."""

from __future__ import annotations

from collections.abc import Callable

from tests.git.canary_kit import HOOKS, Target
from tests.helpers import git

Plant = Callable[[Target], None]
VECTORS: dict[str, Plant] = {}
NEEDS_GIT: dict[str, tuple[int, int]] = {"hook.x.command": (2, 54)}


def vector(name: str) -> Callable[[Plant], Plant]:
    def put(plant: Plant) -> Plant:
        VECTORS[name] = plant
        return plant

    return put


def _key(name: str, *more: tuple[str, str], peer: bool = False) -> None:
    VECTORS[name] = lambda target: target.config((name, target.peer if peer else target.canary), *more)


_key("core.fsmonitor")
_key("filter.ev.clean")
_key("filter.ev.smudge")
_key("filter.ev.process", ("filter.ev.required", "true"))
_key("diff.external")
_key("diff.ev.command")
_key("diff.ev.textconv")
_key("merge.ev.driver")
_key("core.sshCommand", ("remote.origin.url", "ssh://host.invalid/x"), peer=True)
_key("core.gitProxy", ("remote.origin.url", "git://host.invalid/x"), peer=True)
_key("remote.origin.uploadpack", peer=True)
_key("remote.origin.receivepack", peer=True)
_key("gpg.program", ("log.showSignature", "true"))
_key("gpg.openpgp.program", ("merge.verifySignatures", "true"))
_key("credential.helper")
_key("credential.https://example.invalid.helper")
_key("core.askPass")


@vector("include.path")
def _include(target: Target) -> None:
    (target.root / "more").write_text(
        f'[filter "ev"]\n\tclean = {target.canary}\n[core]\n\tfsmonitor = {target.canary}\n'
    )
    target.config(("include.path", str(target.root / "more")))


@vector("includeIf.onbranch")
def _include_if(target: Target) -> None:
    (target.root / "more").write_text(f'[filter "ev"]\n\tclean = {target.canary}\n')
    target.config(("includeIf.onbranch:w.path", str(target.root / "more")))


@vector("config.worktree")
def _config_worktree(target: Target) -> None:
    target.config(("extensions.worktreeConfig", "true"))
    git("config", "--worktree", "filter.ev.clean", target.canary, cwd=target.tree)
    git("config", "--worktree", "core.fsmonitor", target.canary, cwd=target.tree)


@vector("config.worktree of another worktree")
def _other_config_worktree(target: Target) -> None:
    target.config(("extensions.worktreeConfig", "true"))
    spare = target.root / "spare-remove"
    (spare / "x.f").write_text("one\ntwo\nTHREE\n")
    git("config", "--worktree", "filter.ev.clean", target.canary, cwd=spare)


@vector("hooks")
def _hooks(target: Target) -> None:
    (target.common / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (target.common / "hooks" / name).symlink_to(target.canary)


@vector("core.hooksPath")
def _hooks_path(target: Target) -> None:
    (target.root / "elsewhere").mkdir()
    for name in HOOKS:
        (target.root / "elsewhere" / name).symlink_to(target.canary)
    target.config(("core.hooksPath", str(target.root / "elsewhere")))


@vector("hook.x.command")
def _configured_hook(target: Target) -> None:
    target.config(("hook.x.command", target.canary))
    for name in HOOKS:
        target.git("config", "--add", "hook.x.event", name)


@vector("ext:: url")
def _ext(target: Target) -> None:
    target.config(("protocol.ext.allow", "always"), ("remote.origin.url", f"ext::{target.peer} %S"))


@vector("url.insteadOf ext::")
def _instead_of(target: Target) -> None:
    target.config(
        ("protocol.allow", "always"),
        (f"url.ext::{target.peer} %S .insteadOf", "https://"),
        ("remote.origin.url", "https://example.invalid/x"),
    )


@vector("remote.vcs")
def _vcs(target: Target) -> None:
    target.config(("protocol.ext.allow", "always"), ("remote.origin.vcs", "ext"), ("remote.origin.url", target.peer))


@vector("core.alternateRefsCommand")
def _alternate_refs(target: Target) -> None:
    (target.common / "objects" / "info").mkdir(exist_ok=True)
    (target.common / "objects" / "info" / "alternates").write_text(f"{target.root}/origin.git/objects\n")
    target.config(("core.alternateRefsCommand", target.canary))
    extra = git("commit-tree", "main^{tree}", "-m", "unknown to us", cwd=target.root / "origin.git")
    git("update-ref", "refs/heads/unknown", extra, cwd=target.root / "origin.git")


@vector("partial clone")
def _partial(target: Target) -> None:
    """A missing object is fetched in the middle of any command, by the upload-pack that the repository names."""
    blob = target.git("rev-parse", "main:x.f")
    (target.common / "objects" / blob[:2] / blob[2:]).unlink()
    target.config(
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", str(target.root / "origin.git")),
        ("remote.evil.promisor", "true"),
        ("remote.evil.uploadpack", target.peer),
    )


@vector("LFS by its own name")
def _lfs(target: Target) -> None:
    target.config(("filter.lfs.clean", target.canary), ("filter.lfs.smudge", target.canary))
    target.tree.joinpath("big.bin").write_text("larger\n")


@vector("core.worktree and core.fsmonitor")
def _worktree(target: Target) -> None:
    target.config(("core.worktree", str(target.root)), ("core.fsmonitor", target.canary))


@vector("strange spelling")
def _spelling(target: Target) -> None:
    with (target.common / "config").open("a") as config:
        config.write(f'[FiLtEr "ev"]CLEAN={target.canary} ; comment\n[CORE] FsMonitor = \\\n"{target.canary}"\n')


@vector("commondir rewritten")
def _commondir(target: Target) -> None:
    """The admin directory of a linked worktree says where the shared configuration lies; so it can lie elsewhere."""
    evil = target.root / "evil"
    git("clone", "-q", "--bare", str(target.app), str(evil), cwd=target.root)
    git("config", "filter.ev.clean", target.canary, cwd=evil)
    git("config", "core.fsmonitor", target.canary, cwd=evil)
    git("update-ref", "refs/heads/w", "main", cwd=evil)
    (target.admin / "commondir").write_text(f"{evil}\n")
