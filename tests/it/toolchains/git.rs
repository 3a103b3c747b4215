//! Git: what an agent commits is committed, and no repository gets to run anything by it.

use pretty_assertions::assert_eq;

use super::*;

const IDENTITY: (&str, &str) =
    ("~/.gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n");

/// A repository with one commit in both projects.
fn repository() -> Workshop {
    let workshop = Workshop::new(&[IDENTITY, ("a.txt", "one\n"), (".gitignore", "target\n")]);
    for project in ["shell", "agent"] {
        let (code, text) = workshop.shell_in(project, "git init -q && git add -A && git commit -qm first");
        assert_eq!(code, 0, "{text}");
    }
    workshop
}

/// What git knows of a repository, but for the ids of commits, which differ by their time.
const STATE: &str = "{ git log --all --format='%s|%an|%D' | sort; git status --short; git stash list --format=%gs; } \
                     | sed -E 's/^((WIP|index) on .*: )[0-9a-f]{7,}/\\1id/' && sed 's,^>>>>>>> .*,,' a.txt";

#[test]
fn a_day_with_git_ends_as_in_a_shell() {
    let workshop = repository();
    for line in [
        "git status --short --branch",
        "echo two >>a.txt && git add -A && git commit -m second",
        "git checkout -b feature && echo b >b.txt && git add b.txt && git commit -qm 'add b' && git switch main",
        "git branch --list && git tag v1 && git tag -a v2 -m annotated",
        "echo dirty >>a.txt && git stash && git stash pop && git checkout -- a.txt",
        "git mv a.txt moved.txt && git mv moved.txt a.txt && mkdir d && echo x >d/x && git add d && git mv d e && git commit -qm moved",
        "git switch -c conflict HEAD~1 && echo theirs >a.txt && git commit -qam theirs && git switch main && echo ours >a.txt && git commit -qam ours",
        "git rebase conflict",
        "git status --short",
        "echo both >a.txt && git add a.txt && GIT_EDITOR=true git rebase --continue",
        "git merge feature -m merged && git branch -d feature",
        "git cherry-pick --allow-empty v1; git revert --no-edit HEAD; git reset --soft HEAD~1; git commit -m amended --amend",
        "git -c advice.detachedHead=false checkout v1 && git checkout main && git reflog | wc -l && git gc -q && git fsck",
        "git log --oneline | wc -l; git diff HEAD~1 --stat; git blame a.txt | wc -l; git describe --tags",
        "git worktree list | wc -l; git config --get user.name; git remote -v",
    ] {
        workshop.both(line);
        workshop.same(STATE);
    }
}

#[test]
fn the_first_command_of_a_workspace_can_put_untracked_files_aside_or_remove_them() {
    for line in ["git stash --include-untracked && git stash pop", "git clean -fd"] {
        let workshop = repository();
        workshop.both(&format!("echo dirty >>a.txt && mkdir d && echo new >d/new.txt && {line}"));
        workshop.same(STATE);
    }
}

#[test]
fn a_committed_file_with_the_name_of_a_secret_stays_in_the_repository_as_it_is() {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "echo .env >>.gitignore && mkdir certs && echo PORT=1 >.env.test && echo key >certs/server.key && \
                    git add -A && git commit -qm tests && echo TOKEN=1 >.env";
        assert_eq!(workshop.shell_in(project, line), (0, String::new()));
    }
    let state = "git ls-tree -r HEAD; git status --short; cat .env .env.test certs/server.key";
    for line in [
        "echo more >>a.txt && git add -A && git commit -qam more",
        "echo again >>a.txt && git stash && git stash pop && git commit -qam again",
        "git switch -qc ports && sed -i s/1/2/ .env.test && git commit -qam ports && git switch -q main",
        "echo main >>a.txt && git commit -qam main && git rebase -q ports && git merge -q ports",
    ] {
        workshop.both(line);
        workshop.same(STATE);
        workshop.same(state);
    }
    // What no commit has stays out of sight, and out of commits.
    let told = workshop.agent("cat .env");
    assert!(told.contains("Exit code: 1") && told.contains("Permission denied"), "{told}");
    assert_eq!(workshop.shell_in("agent", "echo PASSWORD=1 >>.env.test && echo x >>a.txt").0, 0);
    let told = workshop.agent("cat .env.test; git add -A; git commit -qam leaked");
    assert!(told.contains("cat: .env.test: Permission denied") && !told.contains("PORT"), "{told}");
    assert_eq!(workshop.shell_in("agent", "git show HEAD:.env.test").1, "PORT=2\n");
}

#[test]
fn what_is_shared_with_another_repository_is_fetched_pulled_and_pushed() {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "git clone -q --bare . ../$(basename $PWD).git && git remote add origin ../$(basename $PWD).git && \
                    git fetch -q && git branch -q --set-upstream-to origin/main && git clone -q ../$(basename $PWD).git ../other-$(basename $PWD) && \
                    cd ../other-$(basename $PWD) && git switch -qc theirs && echo t >t && git add t && git commit -qm theirs && git push -q origin theirs";
        assert_eq!(workshop.shell_in(project, line), (0, String::new()));
    }
    for line in [
        "git fetch",
        "git switch theirs",
        "git branch -vv",
        "git pull",
        "git switch main && git branch -D theirs",
    ] {
        workshop.both(line);
        workshop.same(STATE);
        workshop.same("git config --list --local | grep -v '^remote.origin.url'");
    }
}

#[test]
fn hooks_of_the_user_run_and_can_refuse() {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "printf '#!/bin/sh\\ngrep -q forbidden a.txt && echo no such words && exit 1\\necho checked >>.git/checked\\nexit 0\\n' \
                    >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit";
        assert_eq!(workshop.shell_in(project, line).0, 0);
    }
    workshop.both("echo fine >a.txt && git commit -qam fine");
    let told = workshop.both("echo forbidden >a.txt && git commit -qam bad");
    assert!(told.contains("no such words"), "{told}");
    workshop.same("git log --format=%s; cat .git/checked");
}

/// As husky does each time that `npm ci` prepares the project.
const HUSKY: &str = "rm -f .husky/_/husky.sh && echo '*' >.husky/_/.gitignore && \
                     printf '#!/bin/sh\necho checked >>.git/checked\n' >.husky/_/pre-commit && git config core.hooksPath .husky/_";

#[test]
fn generated_hooks_can_be_generated_again_and_stay_as_they_are() {
    let workshop = repository();
    assert_eq!(workshop.shell_in("agent", "mkdir .husky && echo true >.husky/pre-commit").0, 0);
    let told = workshop.agent("echo husky: ${HUSKY-unset}");
    assert!(told.contains("husky: 0"), "a fresh clone: {told}");
    for project in ["shell", "agent"] {
        let line = format!("mkdir -p .husky/_ && {HUSKY} && chmod 755 .husky/_/pre-commit");
        assert_eq!(workshop.shell_in(project, &line), (0, String::new()));
    }
    let told = workshop.agent("echo husky: ${HUSKY-unset}");
    assert!(told.contains("husky: unset"), "{told}");
    let told = workshop.both(HUSKY);
    assert!(!told.contains("undone") && !told.contains("withheld"), "{told}");
    workshop.both("echo two >>a.txt && git commit -qam two");
    workshop.same("git log --format=%s; cat .git/checked; ls -lA .husky/_ | wc -l; cat .husky/_/pre-commit");
    let before = workshop.shell_in("agent", "cat .husky/_/* .husky/_/.gitignore").1;
    for line in [
        "echo evil >>.husky/_/pre-commit",
        "echo evil >.husky/_/post-commit && chmod 755 .husky/_/post-commit",
        "rm .husky/_/pre-commit",
    ] {
        let told = workshop.agent(line);
        assert!(told.contains("were undone") && told.contains(".husky/_: hooks"), "{line}: {told}");
        assert_eq!(workshop.shell_in("agent", "cat .husky/_/* .husky/_/.gitignore").1, before, "{line}");
    }
}

#[test]
fn a_linked_work_tree_and_a_submodule_commit_where_they_keep_their_data() {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "git -c protocol.file.allow=always submodule -q add ./. sub 2>&1 && git commit -qm sub && mv ../$(basename $PWD) ../main-$(basename $PWD) && \
                    cd ../main-$(basename $PWD) && git worktree add -q -b linked ../$(basename $OLDPWD)";
        let line = line.replace("$(basename $OLDPWD)", project).replace("$(basename $PWD)", project);
        assert_eq!(workshop.shell_in(project, &line), (0, String::new()));
    }
    workshop.both(
        "echo more >>a.txt && git add -A && git commit -qm 'in a linked work tree' && git switch -c again",
    );
    workshop.both("git stash list; git log --oneline | wc -l; git branch | wc -l");
    workshop.same("git log --format=%s; git -C ../main-$(basename $PWD) branch --format='%(refname:short)'; git status --short");
    // Its neighbour's head and index are not the command's.
    let told = workshop.agent(
        "echo ref: refs/heads/x >$(git rev-parse --git-common-dir)/HEAD; git -C sub status --short; true",
    );
    assert!(told.contains("Exit code: 0"), "{told}");
}

#[test]
fn what_would_make_git_run_something_does_not_stay() {
    let workshop = repository();
    let before = workshop.shell_in("agent", "cat .git/config").1;
    let told = workshop.agent("git config core.pager ./evil && git config core.pager");
    assert!(told.contains("./evil") && told.contains("core.pager;"), "the command itself sees it: {told}");
    assert!(told.contains("were undone"), "{told}");
    assert_eq!(workshop.shell_in("agent", "cat .git/config").1, before);
    for line in [
        "echo evil >.git/hooks/pre-commit",
        "echo '* filter=evil' >.git/info/attributes",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "mv .git elsewhere",
    ] {
        let told = workshop.agent(line);
        assert!(!told.contains("Exit code: 0\n"), "{line}: {told}");
    }
    for line in ["echo ../x >.git/commondir", "echo /x >.git/objects/info/alternates"] {
        let told = workshop.agent(line);
        assert!(told.contains("were undone"), "{line}: {told}");
    }
    let told = workshop
        .agent("git init -q bad && git -C bad config core.editor evil && git init -q good && echo x >good/x");
    assert!(told.contains("bad/.git: core.editor"), "{told}");
    assert_eq!(names(&workshop.at("agent/bad")), [""; 0]);
    assert!(workshop.at("agent/good/.git/HEAD").is_file());
    assert_eq!(workshop.shell_in("agent", "cat .git/config; git fsck; ls .git/hooks | grep -v sample").0, 1);
}

#[test]
fn only_git_removes_what_git_keeps() {
    let workshop = repository();
    let told = workshop.agent("rm -rf .git/objects .git/refs; python3 -c \"import shutil; shutil.rmtree('.git', True)\"; rm -rf .git; true");
    assert!(told.contains("Operation not permitted"), "{told}");
    assert_eq!(workshop.shell_in("agent", "git log --format=%s && git fsck").1.lines().next(), Some("first"));
    // A lock that a killed git left is no such thing.
    fs::write(workshop.at("agent/.git/index.lock"), "").unwrap();
    workshop.hand_over();
    let told = workshop.agent("rm .git/index.lock && git status --short");
    assert!(told.contains("Exit code: 0"), "{told}");
}

/// A repository of a user who signs all commits and tags with an SSH key.
fn signing_repository() -> Workshop {
    // ssh-keygen looks up who runs it.
    let workshop = repository().with_account();
    let line = "mkdir -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id && \
                echo \"ada@example.org $(cat ~/.ssh/id.pub)\" >~/.ssh/allowed && \
                git config --global gpg.format ssh && git config --global user.signingKey '~/.ssh/id.pub' && \
                git config --global gpg.ssh.allowedSignersFile '~/.ssh/allowed' && \
                git config --global commit.gpgSign true && git config --global tag.gpgSign true";
    assert_eq!(
        workshop.shell(line),
        (0, String::new()),
        "these tests need ssh-keygen; scripts/test installs it"
    );
    workshop
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn what_is_not_signed_is_told_with_the_key_that_the_user_can_grant() {
    let workshop = signing_repository();
    let told = workshop.agent("echo x >>a.txt && git commit -qam unsigned");
    assert!(told.contains("Exit code: 0"), "{told}");
    assert!(
        told.contains("signs commits and tags (commit.gpgSign, tag.gpgSign) with ~/.ssh/id.pub"),
        "{told}"
    );
    assert!(told.contains("setting sandbox.signingKeys"), "{told}");
    assert_eq!(workshop.shell_in("agent", "git log -1 --format=%G?").1, "N\n");
    let told = workshop.agent("git tag v1");
    assert!(told.contains("with ~/.ssh/id.pub"), "{told}");
    let told = workshop.agent("echo y >>a.txt && git commit -qam explicitly -S");
    assert!(told.contains("signing-needs-a-grant") && told.contains("with ~/.ssh/id.pub"), "{told}");
    // What makes nothing that would be signed has nothing to tell.
    let told = workshop.agent("git status && git log --oneline");
    assert!(!told.contains("signature"), "{told}");
    let line = "git config --global gpg.format openpgp";
    assert_eq!(workshop.shell(line).0, 0);
    let told = workshop.agent("git commit -qam openpgp");
    assert!(told.contains("gpg.format openpgp, which can't be granted"), "{told}");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn with_the_users_word_git_signs_and_the_key_stays_outside() {
    let workshop = signing_repository();
    settings(&workshop, "sandbox: {signingKeys: [~/.ssh/id.pub]}\n");
    let told = workshop.both("echo x >>a.txt && git commit -qam signed && git tag -m annotated v1");
    assert!(told.contains("id.pub: 2 (commits and tags)"), "{told}");
    workshop.both("git switch -qc side HEAD~1 && git commit -q --allow-empty -m side && git rebase -q main");
    let checked = workshop.same(
        "git log --format='%s %G? %GS' && git log -1 --show-signature 2>&1 | grep -o 'Good \"git\" signature for .* with' \
         && git verify-tag v1 2>&1 | grep -o 'Good \"git\" signature'",
    );
    assert!(checked.starts_with("side G ada@example.org\nsigned G ada@example.org\nfirst N"), "{checked}");
    let told = workshop.agent("cat ~/.ssh/id; ssh-keygen -Y sign -n git -f ~/.ssh/id a.txt; ls ~/.ssh");
    assert!(!told.contains("PRIVATE KEY") && !told.contains("id.pub\n"), "{told}");
    assert!(!workshop.at("agent/a.txt.sig").exists());
    let told = workshop.agent("$(git config gpg.ssh.program) -Y sign -n git -f x a.txt");
    assert!(told.contains("only commits and tags") && !workshop.at("agent/a.txt.sig").exists(), "{told}");
    // Another key than the one that is granted signs nothing.
    assert_eq!(
        workshop.shell("cp ~/.ssh/id ~/.ssh/other && git config --global user.signingKey '~/.ssh/other'").0,
        0
    );
    let told = workshop.agent("git commit -q --allow-empty -m other");
    assert!(told.contains("with ~/.ssh/other (setting"), "{told}");
}

#[test]
fn hooks_that_the_users_configuration_names_run_where_they_can_be_read() {
    let workshop = repository();
    let hook =
        "printf '#!/bin/sh\\necho checked >>checked\\n' >~/hooks/pre-commit && chmod 755 ~/hooks/pre-commit";
    let line = format!("mkdir ~/hooks && {hook} && git config --global core.hooksPath '~/hooks'");
    assert_eq!(workshop.shell(&line), (0, String::new()));
    workshop.both("echo fine >a.txt && git commit -qam fine && cat checked");
    let line = "mkdir -p ~/.config/gh && mv ~/hooks ~/.config/gh && git config --global core.hooksPath '~/.config/gh/hooks'";
    assert_eq!(workshop.shell(line), (0, String::new()));
    let told = workshop.agent("echo more >a.txt && git commit -qam more");
    assert!(told.contains("git's hooks in ~/.config/gh/hooks did not run: they can't be read"), "{told}");
}

#[test]
fn gc_and_maintenance_write_what_they_may() {
    let workshop = repository();
    let told = workshop.both("git gc --quiet && git maintenance run --quiet");
    assert!(told.contains("Output: none") && !told.contains("withheld"), "{told}");
}

#[test]
fn a_change_of_the_configuration_that_is_undone_is_told_first() {
    let workshop = repository();
    let line = "git config alias.st status";
    let told = workshop.agent(line);
    let first = format!("the user can run this themselves: {line}\n");
    assert!(told.contains(&first), "{told}");
    assert!(told.find("Not done: ") < told.find("Exit code: 0"), "{told}");
}

#[test]
fn what_is_for_this_machine_alone_is_no_change_for_git() {
    let workshop = repository();
    let told = workshop.agent("git status --short");
    assert!(told.contains("Output: none"), "{told}");
    assert!(workshop.at("agent/.orchestration").is_dir());
    let listed = workshop.shell_in("agent", "cat .git/info/exclude").1;
    assert!(listed.contains("# roo-lsp: ") && listed.contains("\n/.roo/tasks/\n"), "{listed}");
}

#[test]
fn hooks_of_the_workspace_that_the_users_configuration_names_run_and_are_protected() {
    let workshop = repository();
    let line = "git config --global core.hooksPath .githooks && cd ../agent && mkdir .githooks && \
                printf '#!/bin/sh\\necho checked >>checked\\n' >.githooks/pre-commit && chmod 755 .githooks/pre-commit";
    assert_eq!(workshop.shell(line), (0, String::new()));
    let told = workshop.agent("echo x >>a.txt && git commit -qam x && cat checked");
    assert!(told.contains("checked"), "{told}");
    // What the user's own commits run outside of the sandbox is not for commands to write.
    let told = workshop.agent("echo evil >>.githooks/pre-commit");
    assert!(told.contains("Read-only file system") && told.contains(".githooks"), "{told}");
    let parameters = "{\"path\": \".githooks/pre-commit\", \"content\": \"evil\\n\"}";
    let mut asked = workshop.start(env!("CARGO_BIN_EXE_roo-lsp"), "agent");
    let asked = asked.args(["tool", "write_to_file", "--params", parameters]).output().unwrap();
    let asked = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.contains("ask (protected)"), "{asked}");
}

/// A repository whose branch `other` has other protected files than `main`, in both projects.
fn branches_with_protected_files() -> Workshop {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "mkdir .vscode && echo main >CLAUDE.md && echo main >.vscode/settings.json && echo main >.pre-commit-config.yaml && \
                    ln -s CLAUDE.md AGENTS.md && git add -A && git commit -qm main && git switch -qc other && echo other >CLAUDE.md && \
                    echo other >.vscode/settings.json && git rm -q .pre-commit-config.yaml && echo '*.x text' >.gitattributes && \
                    mkdir .husky && echo true >.husky/pre-push && chmod 755 .husky/pre-push && ln -sf a.txt AGENTS.md && echo b >b.txt && \
                    git add -A && git commit -qm other && git switch -q main";
        assert_eq!(workshop.shell_in(project, line), (0, String::new()));
    }
    workshop
}

const PROTECTED: &str = "for f in CLAUDE.md AGENTS.md .vscode/settings.json .gitattributes .husky/pre-push .pre-commit-config.yaml; \
                         do echo $f; cat $f; stat -c %A $f; done 2>/dev/null";

#[test]
fn git_brings_the_protected_files_of_the_users_branches() {
    let workshop = branches_with_protected_files();
    for line in [
        "git switch other",
        "git checkout main",
        "git merge --ff-only other",
        "git reset --hard HEAD~1",
        "git switch -qc mine && echo m >m.txt && git add m.txt && git commit -qm mine && git rebase other",
        "git switch main && git cherry-pick other && git reset --hard HEAD~1",
        "git restore --source other -- CLAUDE.md",
        "git stash",
        "git stash pop",
        "git checkout -- . && git merge --no-ff -m merged other",
        "git revert -m 1 --no-edit HEAD",
        "git worktree add -q ./wt other && rm -f wt/b.txt",
    ] {
        let told = workshop.both(line);
        assert!(!told.contains("Scope Violation") && !told.contains("undone"), "{line}: {told}");
        workshop.same(STATE);
        workshop.same(PROTECTED);
    }
    workshop.same(&format!("cd wt; {PROTECTED}"));
}

#[test]
fn git_brings_no_protected_file_that_is_not_the_users() {
    let workshop = branches_with_protected_files();
    let held = || workshop.shell_in("agent", "cat CLAUDE.md").1;
    let told = workshop.agent(
        "git switch other; git show HEAD:b.txt >b; git hash-object -w b | xargs -I{} git update-index --cacheinfo 100644,{},CLAUDE.md; \
         git checkout -- CLAUDE.md; rm b; mkdir -p .cursor; echo evil >.cursor/mcp.json",
    );
    assert!(told.contains("Scope Violation") && told.contains(".cursor/mcp.json: it was undone"), "{told}");
    assert!(told.contains("git went to another commit") && told.contains("\n- CLAUDE.md"), "{told}");
    assert_eq!(held(), "main\n");
    assert!(!workshop.at("agent/.cursor").exists());
    assert_eq!(workshop.shell_in("agent", "cat .vscode/settings.json").1, "other\n");
    assert_eq!(workshop.shell_in("agent", "git checkout -q -f main").0, 0);
    // Neither is what the agent commits, or has git take for something else.
    let commit = "blob=$(echo evil | git hash-object -w --stdin) && git update-index --cacheinfo 100644,$blob,CLAUDE.md && \
                  git commit -qm evil && git branch evil && git reset -q --soft HEAD~1 && git read-tree HEAD";
    let told = workshop.agent(commit);
    assert!(told.contains("Exit code: 0"), "{told}");
    for line in [
        "git checkout evil -- CLAUDE.md",
        "git switch --detach evil",
        "git replace other evil && git checkout other -- CLAUDE.md; git replace -d other",
        "git rm -q --cached CLAUDE.md; git clean -qfx CLAUDE.md",
    ] {
        let told = workshop.agent(line);
        assert!(told.contains("CLAUDE.md: it was undone"), "{line}: {told}");
        assert_eq!(held(), "main\n", "{line}");
        assert_eq!(workshop.shell_in("agent", "git read-tree HEAD; git checkout -q -f main").0, 0);
    }
    // The user's own commit on top of it is theirs.
    let line = "git switch -q evil && echo own >>a.txt && git commit -qam own && git switch -q main";
    assert_eq!(workshop.shell_in("agent", line).0, 0);
    let told = workshop.agent("git switch evil");
    assert!(!told.contains("undone"), "{told}");
    assert_eq!(held(), "evil\n");
}

#[test]
fn what_governs_the_server_stays_and_that_is_told() {
    let workshop = repository();
    let line = "echo secret >.rooignore && git add -A && git commit -qm main && git switch -qc open && echo other >.rooignore && \
                echo x >x.txt && git add -A && git commit -qm open && git switch -q main";
    assert_eq!(workshop.shell_in("agent", line), (0, String::new()));
    let told = workshop.agent("git switch open");
    assert!(told.contains("git went to another commit") && told.contains("\n- .rooignore"), "{told}");
    assert_eq!(workshop.shell_in("agent", "cat .rooignore").1, "secret\n");
}

#[test]
fn a_repository_in_build_output_is_as_git_makes_it() {
    let workshop = repository();
    assert_eq!(workshop.shell_in("agent", "echo build >>.gitignore && git commit -qam ignored").0, 0);
    for line in [
        "mkdir -p build/x && cd build/x && git init -q && git config core.fsmonitor 'touch /pwned'",
        "git init -q made && git -C made config core.fsmonitor evil && mv made build/x",
        "git init -q build/made && git -C build/made config core.fsmonitor evil && mv build/made build/x",
    ] {
        let told = workshop.agent(line);
        assert!(told.contains("were undone") && told.contains("core.fsmonitor"), "{line}: {told}");
        assert!(!workshop.at("agent/build/x/.git").exists(), "{line}");
        assert_eq!(workshop.shell_in("agent", "rm -rf build/x").0, 0);
    }
    // As CMake and pip fetch what they need.
    let told = workshop.agent("git clone -q --config advice.detachedHead=false --no-tags . build/dep && cd build/dep && git switch -qc x");
    assert!(told.contains("Exit code: 0") && !told.contains("undone"), "{told}");
    let before = workshop.shell_in("agent", "cat build/dep/.git/config").1;
    let told = workshop.agent(
        "cd build/dep && git fetch -q && git switch -qc y && echo y >y && git add y && git commit -qm y",
    );
    assert!(told.contains("Exit code: 0") && !told.contains("undone"), "{told}");
    for (line, because) in [
        ("git -C build/dep config core.fsmonitor evil", "build/dep/.git/config: core.fsmonitor"),
        ("echo evil >build/dep/.git/hooks/post-checkout", "post-checkout"),
        ("echo '* filter=evil' >build/dep/.git/info/attributes", "attributes"),
    ] {
        let told = workshop.agent(line);
        assert!(told.contains("were undone") && told.contains(because), "{line}: {told}");
        assert_eq!(workshop.shell_in("agent", "cat build/dep/.git/config").1, before, "{line}");
    }
    let left = "ls build/dep/.git/hooks | grep -v sample; ls build/dep/.git/info";
    assert_eq!(workshop.shell_in("agent", left).1, "exclude\n");
}

#[test]
fn a_repository_without_a_dot_git_in_build_output_runs_nothing_either() {
    let workshop = repository();
    let line = "echo build >>.gitignore && git commit -qam ignored && mkdir build && git init -q --bare build/theirs.git && \
                git -C build/theirs.git config core.fsmonitor mine";
    assert_eq!(workshop.shell_in("agent", line).0, 0);
    for line in [
        "git init -q --bare build/x.git && git -C build/x.git config core.fsmonitor evil",
        "git init -q --bare made && git -C made config core.fsmonitor evil && mv made build/x.git",
        "mkdir -p build/a && git init -q --bare build/a/b && git -C build/a/b config core.fsmonitor evil && mv build/a build/x.git && \
         mv build/x.git/b build/y && rmdir build/x.git && mv build/y build/x.git",
        "mkdir -p build/x.git/refs && printf '[core]\nfsmonitor = evil\n' >build/x.git/config && mkdir build/x.git/objects && \
         echo 'ref: refs/heads/main' >head && mv head build/x.git/HEAD",
    ] {
        let told = workshop.agent(line);
        assert!(
            told.contains("were undone") && told.contains("build/x.git/HEAD: core.fsmonitor"),
            "{line}: {told}"
        );
        assert!(!workshop.at("agent/build/x.git/HEAD").exists(), "{line}");
        assert_eq!(workshop.shell_in("agent", "rm -rf build/x.git made").0, 0);
    }
    let told = workshop.agent("git init -q --bare build/fine.git && git push -q build/fine.git main && git push -q build/theirs.git main");
    assert!(told.contains("Exit code: 0") && !told.contains("undone"), "{told}");
    let before = workshop.shell_in("agent", "cat build/theirs.git/config").1;
    for (line, because) in [
        ("git -C build/theirs.git config core.editor evil", "build/theirs.git/config: core.editor"),
        (
            "cd build/theirs.git && mv HEAD H && git config --file config core.editor evil && mv H HEAD",
            "build/theirs.git/config: core.editor",
        ),
        ("echo evil >build/theirs.git/hooks/post-receive", "post-receive"),
        ("echo /evil >build/theirs.git/objects/info/alternates", "alternates"),
    ] {
        let told = workshop.agent(line);
        assert!(told.contains("were undone") && told.contains(because), "{line}: {told}");
        assert_eq!(workshop.shell_in("agent", "cat build/theirs.git/config").1, before, "{line}");
    }
    let left =
        "ls build/theirs.git/hooks | grep -v sample; ls build/theirs.git/objects/info build/theirs.git/HEAD";
    assert_eq!(
        workshop.shell_in("agent", left).1,
        "build/theirs.git/HEAD\n\nbuild/theirs.git/objects/info:\n"
    );
    let told = workshop.agent("rm -rf build/theirs.git");
    assert!(told.contains("Exit code: 0") && !told.contains("undone"), "{told}");
}

#[test]
fn a_repository_in_the_workspace_has_no_work_tree_elsewhere() {
    let workshop = repository();
    let told = workshop.agent("git init -q sub && git -C sub config core.worktree ~");
    assert!(told.contains("sub/.git: core.worktree"), "{told}");
    assert!(!workshop.at("agent/sub/.git").exists());
}

#[test]
fn a_new_work_tree_gets_no_program_by_its_own_configuration() {
    let workshop = repository();
    assert_eq!(workshop.shell_in("agent", "git config extensions.worktreeConfig true").0, 0);
    let told = workshop.agent(
        "git worktree add -q fine && git worktree add -q wt && git -C wt config --worktree core.fsmonitor 'touch /pwned; false'",
    );
    assert!(told.contains("worktrees/wt: core.fsmonitor"), "{told}");
    assert!(!workshop.at("agent/wt/.git").exists() && workshop.at("agent/fine/.git").is_file());
}

#[test]
fn a_command_adds_no_program_to_a_rebase_that_is_under_way() {
    let workshop = repository();
    for project in ["shell", "agent"] {
        let line = "git switch -qc side && echo side >a.txt && git commit -qam side && git switch -q main && echo main >a.txt && \
                    git commit -qam main && echo last >last && git add last && git commit -qm last && ! git rebase side >/dev/null 2>&1";
        assert_eq!(workshop.shell_in(project, line), (0, String::new()));
    }
    let before = workshop.shell_in("agent", "cat .git/rebase-merge/git-rebase-todo").1;
    let told = workshop.agent("echo 'exec touch pwned' >>.git/rebase-merge/git-rebase-todo");
    assert!(told.contains("were undone") && told.contains("exec touch pwned"), "{told}");
    assert_eq!(workshop.shell_in("agent", "cat .git/rebase-merge/git-rebase-todo").1, before);
    workshop.both("echo both >a.txt && git add a.txt && GIT_EDITOR=true git rebase --continue");
    workshop.both("git rebase -q --exec 'echo ran >>ran' HEAD~1 && cat ran");
    workshop.same(STATE);
}

#[test]
fn what_others_do_with_git_while_a_command_runs_stays() {
    let workshop = repository();
    let act = || {
        let line = "git -c protocol.file.allow=always submodule -q add ./. sub && git commit -qm sub && \
                    git -C sub config core.pager less && printf '#!/bin/sh\n' >.git/modules/sub/hooks/pre-commit && \
                    git worktree add -q ../theirs && \
                    GIT_SEQUENCE_EDITOR='sed -i -e \"1i break\" -e \"\\$a exec echo ran >ran\"' git rebase -q -i HEAD~1";
        let (code, text) = workshop.shell_in("agent", line);
        assert_eq!(code, 0, "{text}");
    };
    let line = "git worktree add -q own && echo /elsewhere/.git >.git/worktrees/own/gitdir; echo x >made.txt";
    let told = workshop.agent_after(act, line);
    assert!(told.contains("2 of git's files undone: own/.git, .git/worktrees/own"), "{told}");
    assert!(!told.contains("theirs") && !told.contains("Scope Violation"), "{told}");
    let left = "git -C ../theirs log --format=%s; git -C sub config core.pager; ls .git/modules/sub/hooks/pre-commit; \
                GIT_EDITOR=true git rebase --continue >/dev/null 2>&1; cat ran; ls .git/worktrees";
    let expected = "sub\nfirst\nless\n.git/modules/sub/hooks/pre-commit\nran\ntheirs\n";
    assert_eq!(workshop.shell_in("agent", left).1, expected);
}

#[test]
fn what_others_do_meanwhile_in_a_work_tree_of_a_bare_repository_stays() {
    let workshop = repository();
    let line = "echo two >a.txt && git commit -qam second && git clone -q --bare . ../home/own.git && rm -rf .git a.txt .gitignore && \
                git -C ../home/own.git worktree add -q \"$PWD\" main";
    assert_eq!(workshop.shell_in("agent", line), (0, String::new()));
    let act = || {
        let line = "GIT_SEQUENCE_EDITOR='sed -i -e \"1i break\" -e \"\\$a exec echo ran >ran\"' git rebase -q -i HEAD~1 && \
                    git worktree add -q ../theirs";
        let (code, text) = workshop.shell_in("agent", line);
        assert_eq!(code, 0, "{text}");
    };
    let told = workshop.agent_after(act, "echo x >made.txt");
    assert!(told.contains("Exit code: 0") && !told.contains("undone"), "{told}");
    let told = workshop.agent("echo 'exec evil' >>$(git rev-parse --git-path rebase-merge/git-rebase-todo)");
    assert!(told.contains("were undone") && told.contains("exec evil"), "{told}");
    let left =
        "GIT_EDITOR=true git rebase --continue >/dev/null 2>&1; cat ran; git -C ../theirs log -1 --format=%s";
    // The rebase had stopped before the second commit when the work tree was made.
    assert_eq!(workshop.shell_in("agent", left).1, "ran\nfirst\n");
}

#[test]
fn beside_git_no_program_writes_protected_files() {
    let workshop = branches_with_protected_files();
    let held = || workshop.shell_in("agent", PROTECTED).1;
    let before = held();
    assert_eq!(workshop.agent("git switch -q other; git switch -q main").matches("undone").count(), 0);
    for line in [
        "echo git stash; echo evil >CLAUDE.md",
        "git stash list; echo evil >CLAUDE.md",
        "git stash list; echo evil >.vscode/tasks.json",
        "git stash list; rm CLAUDE.md",
        "git stash list; chmod 755 CLAUDE.md",
        "git stash list; mv CLAUDE.md moved",
        "git stash list; echo evil >made; mv -f made CLAUDE.md",
        "git stash list; ln CLAUDE.md second && echo evil >second",
        "git stash list; ln -s CLAUDE.md made; echo evil >made",
        "git stash list; exec 3<CLAUDE.md; echo evil >/proc/self/fd/3",
        "git stash list; cp $(command -v bash) git; ./git -c 'echo evil >CLAUDE.md'",
        "git stash list; cp $(command -v bash) /tmp/git; exec 3</tmp/git; /proc/self/fd/3 -c 'echo evil >CLAUDE.md'",
        "git -c alias.x='!echo evil >CLAUDE.md' x; git stash list",
    ] {
        let told = workshop.agent(&format!("({line}) 2>&1; git status --short"));
        assert!(told.contains("Read-only file system"), "{line}: {told}");
        assert!(!told.contains("Scope Violation") && !told.contains("undone"), "{line}: {told}");
        assert_eq!(held(), before, "{line}");
        assert_eq!(workshop.shell_in("agent", "rm -f git made second moved").0, 0);
    }
}

#[test]
fn a_repository_without_a_dot_git_runs_nothing_either() {
    let workshop = repository();
    let make = "mkdir -p bare/objects bare/refs bare/wt && echo 'ref: refs/heads/main' >bare/HEAD && \
                printf '[core]\n\tbare = false\n\tworktree = wt\n\tfsmonitor = touch /pwned\n' >bare/config";
    let told = workshop.agent(make);
    assert!(
        told.contains("were undone") && told.contains("bare/HEAD: core.fsmonitor, core.worktree"),
        "{told}"
    );
    assert!(!workshop.at("agent/bare/HEAD").exists() && workshop.at("agent/bare/config").exists());
    let told = workshop.both(
        "git init -q --bare own.git && git push -q own.git main && git --git-dir own.git log --format=%s",
    );
    assert!(!told.contains("undone"), "{told}");
    let told = workshop
        .agent("git --git-dir own.git config core.fsmonitor evil; echo evil >own.git/hooks/post-commit");
    assert!(told.contains("own.git/config: core.fsmonitor") && told.contains("post-commit"), "{told}");
    workshop.same("cat own.git/config; ls own.git/hooks | grep -v sample");
    for path in ["own.git/config", "own.git/hooks/post-commit", "bare/HEAD"] {
        let parameters = serde_json::json!({ "path": path, "content": "ref: refs/heads/main\n" }).to_string();
        let mut asked = workshop.start(env!("CARGO_BIN_EXE_roo-lsp"), "agent");
        let asked = asked.args(["tool", "write_to_file", "--params", &parameters]).output().unwrap();
        let asked = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(asked.contains("ask (protected)") && asked.contains("git repository"), "{path}: {asked}");
    }
}
