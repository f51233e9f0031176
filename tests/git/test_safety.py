"""Which parts of a repository's configuration take effect: the keys, the scan, its cache, trust. (rules 23, 24, 28)"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor import programs
from imi_monitor.git import config_scan, safety
from imi_monitor.git.environment import git_environment
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError
from tests.helpers import Repo, git

# Written down a second time on purpose: a line lost from the table must be noticed. `*` stands for a subsection.
_TAKEN_BACK = """
alias.x alias.*.command browser.*.cmd browser.*.path commit.gpgsign core.alternaterefscommand core.askpass core.editor
core.pager core.sshcommand core.virtualfilesystem credential.helper diff.external diff.*.command diff.*.textconv difftool.*.cmd
difftool.*.path filter.*.clean filter.*.process filter.*.required filter.*.smudge gc.recentobjectshook gpg.program
gpg.openpgp.program gpg.ssh.defaultkeycommand gpg.ssh.program gpg.x509.program guitool.*.cmd imap.tunnel
init.templatedir interactive.difffilter lfs.customtransfer.*.path lfs.extension.*.clean lfs.extension.*.smudge
lfs.standalonetransferagent man.*.cmd man.*.path merge.*.driver merge.verifysignatures mergetool.*.cmd mergetool.*.path
pager.log push.gpgsign sequence.editor submodule.*.update tag.forcesignannotated tag.gpgsign
tar.*.command trailer.*.cmd trailer.*.command uploadpack.packobjectshook core.fsmonitor core.hookspath
"""
TAKEN_BACK = _TAKEN_BACK.split()
BY_OTHER_MEANS = ("core.gitproxy", "remote.*.receivepack", "remote.*.uploadpack", "remote.*.vcs")


def common(repo: Repo) -> str:
    return str(repo.path / ".git")


def neutral(repo: Repo, **options: bool) -> dict[str, str]:
    return dict(safety.neutral_settings(common(repo), common(repo), False, **options))


def settle() -> None:
    """Files changed a moment ago are looked at again each time; this is later than that moment."""
    time.sleep(0.12)


# --- the environment


def test_inherited_variables_of_git_are_dropped_and_the_users_own_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "GIT_TRACE", "SSH_ASKPASS"):
        monkeypatch.setenv(name, "evil")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "7")
    monkeypatch.setenv("GIT_CONFIG_KEY_6", "core.pager")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Me")
    env = git_environment([("a.b", "c"), ("d.e", "")])
    assert "evil" not in env.values()
    assert env["GIT_AUTHOR_NAME"] == "Me"
    assert {
        name: value for name, value in env.items() if name.startswith("GIT_CONFIG_") and name[-1] in "0123456T"
    } == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "a.b",
        "GIT_CONFIG_VALUE_0": "c",
        "GIT_CONFIG_KEY_1": "d.e",
        "GIT_CONFIG_VALUE_1": "",
    }
    assert env["GIT_OPTIONAL_LOCKS"] == "0"
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert env["LC_ALL"] == "C.UTF-8"
    assert "LANGUAGE" not in env


def test_the_environment_disables_prompts_and_programs() -> None:
    """Some guard what another one guards too; none may go missing unnoticed, so here they are a second time."""
    env = git_environment([])
    assert {name: env.get(name) for name in FENCES} == FENCES
    assert (config_scan.BASE_SETTINGS, config_scan.LOCKED_SETTINGS) == (HABITS, LOCKED)


FENCES = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "https:ssh:git:file",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROXY_COMMAND": "",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
}
HABITS = [
    ("safe.bareRepository", "explicit"),
    ("log.showSignature", "false"),
    ("color.ui", "false"),
    ("color.diff", "false"),
    ("diff.autoRefreshIndex", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
]
LOCKED = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("protocol.ext.allow", "never"),
]


def test_relative_entries_of_path_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "node_modules/.bin::.:/usr/bin:../x:/bin")
    assert git_environment([])["PATH"] == "/usr/bin:/bin"
    monkeypatch.setenv("PATH", ".")
    assert all(map(os.path.isabs, programs.search_path().split(":")))


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({}, "ssh -o BatchMode=yes"),
        ({"GIT_SSH_COMMAND": "ssh -i ~/.ssh/key"}, "ssh -i ~/.ssh/key -o BatchMode=yes"),
        ({"GIT_SSH_COMMAND": "/opt/bin/ssh -v", "GIT_SSH": "other"}, "/opt/bin/ssh -v -o BatchMode=yes"),
        ({"GIT_SSH": "/o'k/ssh"}, "'/o'\\''k/ssh' -o BatchMode=yes"),
        ({"GIT_SSH_COMMAND": "my-wrapper --fast"}, "my-wrapper --fast"),
        ({"GIT_SSH_COMMAND": "ssh.exe -v"}, "ssh.exe -v -o BatchMode=yes"),
        ({"GIT_SSH": "plink"}, "'plink'"),
    ],
)
def test_ssh_never_asks(variables: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert git_environment([])["GIT_SSH_COMMAND"] == command


def test_the_users_ssh_command_is_kept_and_the_repositorys_is_not(repo: Repo) -> None:
    repo.git("config", "core.sshCommand", "evil")
    assert safety.ssh_command(common(repo), common(repo), False) == "ssh -o BatchMode=yes"
    assert safety.ssh_command(common(repo), common(repo), True) == "evil"
    repo.git("config", "--global", "core.sshCommand", "ssh -F ~/.ssh/work")
    repo.git("config", "x.changed", "1")  # a scan is kept until the repository's own files change
    assert safety.ssh_command(common(repo), common(repo), False) == "ssh -F ~/.ssh/work -o BatchMode=yes"


# --- the table


@pytest.mark.parametrize(
    "value", ["", "false", "no", "off", "0", "none", "checkout", "merge", "rebase", "never", "user", "Never"]
)
def test_a_value_that_runs_nothing_is_no_program(value: str) -> None:
    assert not config_scan.names_program("protocol.ext.allow", value)
    assert config_scan.names_program("protocol.ext.allow", f"{value}x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpg.program", "gpg"),
        ("gpg.openpgp.program", "gpg"),
        ("gpg.x509.program", "gpgsm"),
        ("gpg.X509.program", "gpgsm"),
        ("gpg.ssh.program", "ssh-keygen"),
        ("filter.a.b.clean", ""),
        ("pager.log", "false"),
        ("commit.gpgsign", "false"),
        ("user.name", None),
        ("core.bare", None),
    ],
)
def test_a_key_is_disabled_by_what_git_takes_for_nothing(key: str, value: str | None) -> None:
    assert config_scan.neutral_value(key) == value


def test_only_a_helper_of_a_remote_makes_it_refused(repo: Repo) -> None:
    repo.git("config", "alias.vcs", "!evil")
    repo.git("config", "remote.origin.uploadpack", "evil")
    assert safety.refused_remote(common(repo), common(repo)) is None
    repo.git("config", "remote.other.vcs", "evil")
    assert safety.refused_remote(common(repo), common(repo)) == "remote.other.vcs=evil"


@pytest.mark.parametrize(
    ("script", "why", "code"),
    [
        ("echo first >&2; echo the reason >&2; exit 3", "the reason", "git"),
        ("exit 3", "exit status 3", "git"),
        (r"trap 'exit 0' TERM; printf 'local\0core.bare\nfalse\0'; sleep 60 & wait", "no answer in 5 s", "git-timeout"),
        ("trap 'exit 0' TERM; exec 2>/dev/null; while :; do head -c 1000000 /dev/zero; done", "exit status", "git"),
    ],
)
def test_a_listing_that_is_cut_off_is_never_taken_for_the_whole(
    script: str, why: str, code: str, repo: Repo, shim: Callable[[str], Path]
) -> None:
    repo.git("config", "filter.a.clean", "evil")
    shim(script)
    with pytest.raises(GitError, match=why) as refused:
        neutral(repo)
    assert refused.value.code == code and str(repo.path) in refused.value.sentence


def test_a_linked_worktree_pins_its_common_directory(repo: Repo) -> None:
    assert config_scan.pinned_variables("/a/.git", "/a/.git/worktrees/x") == {"GIT_COMMON_DIR": "/a/.git"}
    assert config_scan.pinned_variables("/a/.git", "/a/.git") == {}


@pytest.mark.parametrize("key", TAKEN_BACK)
def test_each_program_key_is_found_and_overridden(key: str, repo: Repo, count_git: Callable[[], int]) -> None:
    key = key.replace("*", "Some Name.v1")
    repo.git("config", key, "evil-program")
    env = git_environment(list(neutral(repo).items()))
    assert count_git() == 1, "the scan did not notice the key"
    assert repo_value(repo, key, env) != "evil-program"


@pytest.mark.parametrize("key", BY_OTHER_MEANS)
def test_keys_that_no_setting_overrides_get_none(key: str, repo: Repo, count_git: Callable[[], int]) -> None:
    key = key.replace("*", "origin")
    repo.git("config", key, "evil-program")
    assert key not in neutral(repo)
    assert count_git() == 1
    assert safety.programs(common(repo)) == [f"{key}=evil-program"]


def test_a_configured_hook_is_disabled_by_name(repo: Repo) -> None:
    repo.git("config", "hook.Some Name.v1.command", "evil")
    repo.git("config", "hook.jobs", "2")
    assert {key: value for key, value in neutral(repo).items() if key.startswith("hook.")} == {
        "hook.Some Name.v1.enabled": "false"
    }


def repo_value(repo: Repo, key: str, env: dict[str, str]) -> str:
    return git("config", "--get", key, cwd=repo.path, env=env)


def test_harmless_configuration_needs_no_process_and_no_settings(cloned: Repo, count_git: Callable[[], int]) -> None:
    cloned.git("config", "user.name", "Somebody")
    cloned.git("config", "branch.main.rebase", "true")
    cloned.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    cloned.git("config", "gui.geometry", "887x427+0+0 171 192")
    assert safety.neutral_settings(common(cloned), common(cloned), False) == [
        *config_scan.BASE_SETTINGS,
        *config_scan.LOCKED_SETTINGS,
    ]
    assert count_git() == 0


def test_a_plain_configuration_takes_a_git_process_only_where_hooks_may_run(
    repo: Repo, count_git: Callable[[], int]
) -> None:
    """`imi status` scans the configuration for every worktree: a process for each would take most of its time."""
    admin = repo.worktree("feat-x").git("rev-parse", "--absolute-git-dir")
    before = count_git()
    for own in (common(repo), admin):
        safety.neutral_settings(common(repo), own, False)
    assert count_git() == before
    safety.neutral_settings(common(repo), admin, False, thorough=True)
    assert count_git() == before + 1


def test_the_users_value_replaces_that_of_the_repository(repo: Repo) -> None:
    for key, value in (
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("gpg.program", "gpg2"),
        ("commit.gpgSign", "true"),
    ):
        repo.git("config", "--global", key, value)
        repo.git("config", key, "evil")
    repo.git("config", "filter.lfs.smudge", "evil")
    taken = neutral(repo)
    assert taken["filter.lfs.clean"] == "git-lfs clean -- %f"
    assert taken["filter.lfs.smudge"] == ""
    assert taken["gpg.program"] == "gpg2"
    assert taken["commit.gpgsign"] == "true"


def test_fsmonitor_and_hooks_are_off_in_every_scope(repo: Repo) -> None:
    repo.git("config", "--global", "core.fsmonitor", "true")
    repo.git("config", "--global", "core.hooksPath", "~/hooks")
    taken = neutral(repo)
    assert taken["core.fsmonitor"] == "false"
    assert taken["core.hooksPath"] == "/dev/null"


def test_hooks_configured_by_the_user_are_off_for_commands_that_fire_hooks(repo: Repo) -> None:
    repo.git("config", "--global", "hook.lint.command", "./scripts/lint.sh")
    assert "hook.lint.enabled" not in neutral(repo)
    assert neutral(repo, thorough=True)["hook.lint.enabled"] == "false"


def test_credential_helpers_are_cleared_then_those_of_the_user(repo: Repo) -> None:
    repo.git("config", "--global", "credential.helper", "mine")
    repo.git("config", "--global", "credential.https://github.com.helper", "!gh auth git-credential")
    repo.git("config", "credential.https://github.com.helper", "evil")
    repo.git("config", "--add", "credential.helper", "evil")
    taken = safety.neutral_settings(common(repo), common(repo), False)
    assert [pair for pair in taken if pair[0].startswith("credential.")] == [
        ("credential.helper", ""),
        ("credential.helper", "mine"),
        ("credential.https://github.com.helper", "!gh auth git-credential"),
    ]


def test_a_remote_with_a_helper_program_is_refused(cloned: Repo) -> None:
    cloned.git("config", "remote.origin.vcs", "evil")
    with pytest.raises(GitError, match=r"remote\.origin\.vcs=evil"):
        Git(common(cloned), None, str(cloned.path)).run("fetch", "origin")


def test_a_broken_configuration_is_an_error_not_an_empty_scan(repo: Repo) -> None:
    with (repo.path / ".git" / "config").open("a") as config:
        config.write('[filter "x"\n\tclean = evil\n')
    with pytest.raises(GitError, match="cannot read the configuration"):
        neutral(repo)


_SHORT = sorted(
    {
        *map(config_scan.short_key, [*TAKEN_BACK, *BY_OTHER_MEANS]),
        "core.bare",
        "user.name",
        "remote.url",
        "hook.command",
    }
)
_SPACE = st.sampled_from(["", " ", "\t", "\r\n", "\n\n", " ; comment\n", "\n# [core] x\n"])
_VALUE = st.sampled_from(["evil", '"evil"', "e\\\nvil", "true", '"a;b" # c', ""])


@st.composite
def _configs(draw: st.DrawFn) -> str:
    """Configuration files as odd as git still accepts, some of them with a key of ours."""
    text = draw(st.sampled_from(["", "\ufeff"]))
    for _ in range(draw(st.integers(1, 4))):
        section, _, variable = draw(st.sampled_from(_SHORT)).partition(".")
        form = draw(st.sampled_from(["[{}]", '[{} "a b"]', '[ {} "q\\"\\\\"]', "[{}.old]"]))
        odd = "".join(draw(st.sampled_from([char, char.upper()])) for char in section)
        name = "".join(draw(st.sampled_from([char, char.upper()])) for char in variable)
        text += f"{form.format(odd).replace('[ ', '[')}{draw(_SPACE)}{name}{draw(st.sampled_from([' = ', '=']))}{draw(_VALUE)}\n"
    return text


@settings(max_examples=60)
@given(text=_configs())
def test_the_byte_scan_finds_every_key_that_git_reads(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    listed = git("config", "--file", str(path), "--null", "--name-only", "--list", cwd=tmp_path, check=False)
    found = [
        key
        for key in listed.split("\0")
        if key and (config_scan.neutral_value(key) is not None or config_scan.short_key(key) in config_scan.LOCKED_KEYS)
    ]
    if found:
        assert config_scan.may_name_programs(path.read_bytes()), found


# --- the cache


def test_a_scan_is_cached_until_a_file_changes(repo: Repo, count_git: Callable[[], int]) -> None:
    repo.git("config", "filter.a.clean", "evil")
    settle()
    for _ in range(5):
        assert neutral(repo)["filter.a.clean"] == ""
    assert count_git() == 1
    repo.git("config", "filter.b.clean", "evil")
    assert neutral(repo)["filter.b.clean"] == ""


def test_a_change_with_an_old_time_stamp_is_noticed(repo: Repo) -> None:
    repo.git("config", "filter.a.clean", "evil")
    settle()
    path = repo.path / ".git" / "config"
    assert "filter.a.clean" in neutral(repo)
    info = path.stat()
    with path.open("r+") as config:
        text = config.read()
        config.seek(0)
        config.write(text.replace('"a"', '"b"'))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert path.stat().st_size == info.st_size
    assert "filter.b.clean" in neutral(repo)


def test_a_scan_of_a_file_changed_just_now_is_not_cached(repo: Repo, count_git: Callable[[], int]) -> None:
    """Two changes within one tick of the clock leave the same stamp."""
    repo.git("config", "filter.a.clean", "evil")
    neutral(repo)
    neutral(repo)
    assert count_git() == 2
    settle()
    neutral(repo)
    neutral(repo)
    assert count_git() == 3


def test_worktrees_with_the_same_configuration_share_its_listing(
    repo: Repo, tmp_path: Path, count_git: Callable[[], int]
) -> None:
    """A repository with `core.hooksPath` or a filter of its own costs one process, not one for each worktree."""
    admins = [f"{common(repo)}/worktrees/{repo.worktree(name).path.name}" for name in ("feat-a", "feat-b", "feat-c")]
    repo.git("config", "filter.a.clean", "evil")
    settle()
    for admin in admins:
        assert dict(safety.neutral_settings(common(repo), admin, False))["filter.a.clean"] == ""
    assert count_git() == 1
    more = tmp_path / "more"
    more.write_text(f'[includeIf "onbranch:feat/b"]\n\tpath = {tmp_path}/only-b\n')
    (tmp_path / "only-b").write_text('[filter "b"]\n\tclean = evil\n')
    repo.git("config", "include.path", str(more))
    found = [dict(safety.neutral_settings(common(repo), admin, False)) for admin in admins]
    assert ["filter.b.clean" in each for each in found] == [False, True, False], "a condition holds in one of them"


def test_a_new_configuration_of_a_worktree_is_noticed(repo: Repo) -> None:
    linked = repo.worktree("feat-a")
    repo.git("config", "extensions.worktreeConfig", "true")
    admin = f"{common(repo)}/worktrees/feat-a"
    settle()
    assert "filter.a.clean" not in dict(safety.neutral_settings(common(repo), admin, False))
    linked.git("config", "--worktree", "filter.a.clean", "evil")
    assert "filter.a.clean" in dict(safety.neutral_settings(common(repo), admin, False))


def test_a_configuration_beyond_a_megabyte_is_listed_by_git(repo: Repo) -> None:
    with open(repo.path / ".git" / "config", "a") as config:
        config.write("# padding\n" * 110_000 + '[filter "late"]\n\tclean = evil\n')
    assert "filter.late.clean" in neutral(repo)


def test_the_users_own_values_are_read_again_after_half_a_minute(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, count_git: Callable[[], int]
) -> None:
    repo.git("config", "filter.a.clean", "evil")
    settle()
    assert neutral(repo)["filter.a.clean"] == ""
    repo.git("config", "--global", "filter.a.clean", "mine")
    assert neutral(repo)["filter.a.clean"] == "" and count_git() == 1
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 31)
    assert neutral(repo)["filter.a.clean"] == "mine"


def test_scans_of_very_many_repositories_are_not_all_kept(tmp_path: Path) -> None:
    def kept() -> int:
        return sum(isinstance(one, config_scan.ConfigScan) for one in gc.get_objects())

    before = kept()
    for number in range(4200):
        config_scan.scan_config(f"{tmp_path}/{number}", f"{tmp_path}/{number}")
    assert kept() - before < 4150


def test_a_scan_with_included_files_is_never_cached(repo: Repo, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.write_text('[filter "a"]\n\tclean = evil\n')
    repo.git("config", "include.path", str(more))
    settle()
    assert "filter.a.clean" in neutral(repo)
    more.write_text('[filter "b"]\n\tclean = evil\n')
    assert "filter.b.clean" in neutral(repo)


@pytest.mark.parametrize("name", ["config", "config.worktree", "worktrees/feat-a/config.worktree"])
def test_a_pipe_as_configuration_is_refused_at_once(repo: Repo, name: str) -> None:
    """It would keep us waiting, or tell us one thing and git another."""
    linked = repo.worktree("feat-a")
    path = repo.path / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(GitError, match="not a regular file"):
        Git(common(repo), f"{common(repo)}/worktrees/feat-a", str(linked.path)).run("status")


# --- trust


def test_programs_are_listed_for_imi_trust(repo: Repo) -> None:
    linked = repo.worktree("feat-a")
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "filter.a.clean", "tool clean")
    repo.git("config", "core.fsmonitor", "false")
    repo.git("config", "submodule.x.update", "checkout")
    repo.git("config", "remote.origin.url", "ext::evil %S")
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "--global", "filter.mine.clean", "mine")
    linked.git("config", "--worktree", "core.fsmonitor", "evil")
    assert sorted(safety.programs(common(repo))) == [
        "core.fsmonitor=evil",
        "filter.a.clean=tool clean",
        "remote.origin.url=ext::evil %S",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("remote.origin.url", "ext::evil %S"),
        ("url.ext::evil %S .insteadOf", "https://"),
        ("branch.main.remote", "ext::evil"),
        ("protocol.ext.allow", "always"),
        ("remote.evil.promisor", "true"),
        ("submodule.x.update", "!evil"),
        ("core.hooksPath", "evil"),
        ("alias.status", "!evil"),
        ("hook.evil.command", "evil"),
    ],
)
def test_every_program_that_trust_enables_is_listed(key: str, value: str, repo: Repo) -> None:
    repo.git("config", key, value)
    listed = safety.programs(common(repo))
    assert [line.lower() for line in listed] == [f"{key}={value}".lower()]


@pytest.mark.parametrize(
    "change", ["new program", "other program", "new hook", "hook content", "hook mode", "hook elsewhere", "include"]
)
def test_trust_ends_when_a_program_or_hook_changes(change: str, repo: Repo, tmp_path: Path) -> None:
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    elsewhere = tmp_path / "hooks"
    elsewhere.mkdir()
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntrue\n")
    included = tmp_path / "included"
    included.write_text("")
    repo.git("config", "filter.a.clean", "tool")
    repo.git("config", "include.path", str(included))
    if change == "hook elsewhere":
        repo.git("config", "core.hooksPath", str(elsewhere))
    before = safety.fingerprint(common(repo))
    assert safety.fingerprint(common(repo)) == before
    acts = {
        "new program": lambda: repo.git("config", "filter.b.clean", "tool"),
        "other program": lambda: repo.git("config", "filter.a.clean", "toot"),
        "new hook": lambda: hook.with_name("pre-push").write_text(""),
        "hook content": lambda: hook.write_text("#!/bin/sh\nevil\n"),
        "hook mode": lambda: hook.chmod(0o755),
        "hook elsewhere": lambda: (elsewhere / "pre-push").write_text("evil"),
        "include": lambda: included.write_text("[core]\n\tfsmonitor = evil\n"),
    }
    acts[change]()
    assert safety.fingerprint(common(repo)) != before


def test_hooks_that_are_no_plain_files_do_not_block_and_count(repo: Repo) -> None:
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    os.mkfifo(hooks / "pre-push")
    (hooks / "folder").mkdir()
    (hooks / "post-merge").symlink_to("later")
    handles = len(os.listdir("/dev/fd"))
    before = safety.fingerprint(common(repo))
    assert len(os.listdir("/dev/fd")) <= handles
    (hooks / "later").write_text("evil")
    (hooks / "later.sample").write_text("only an example")
    assert safety.fingerprint(common(repo)) != before
    assert safety.has_hooks(common(repo))


def test_an_example_is_no_hook(repo: Repo) -> None:
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for path in hooks.iterdir():
        path.unlink()
    (hooks / "pre-push.sample").write_text("x")
    assert not safety.has_hooks(common(repo))
    (hooks / "pre-push").write_text("x")
    assert safety.has_hooks(common(repo))
    assert not safety.has_hooks(str(repo.path / "nowhere"))


def test_trust_survives_changes_of_other_files(repo: Repo) -> None:
    before = safety.fingerprint(common(repo))
    repo.git("config", "user.name", "Other")
    repo.git("remote", "add", "origin", "https://example.invalid/x")
    repo.worktree("feat-a")
    repo.write("new", "file")
    repo.commit("more")
    (repo.path / ".git" / "hooks").mkdir(exist_ok=True)
    (repo.path / ".git" / "hooks" / "pre-push.sample").write_text("x")
    assert safety.fingerprint(common(repo)) == before
