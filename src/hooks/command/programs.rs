//! What is known of programs: which run other programs, and which options turn a harmless one into a
//! writer or a launcher.
//!
//! The rules are the user's, so an unknown program is taken at the rule's word. Options count in any
//! position, also after `--`.

use crate::workspace::{Protection, protection};

/// Programs that run what their arguments say, and shell builtins that change what later words mean.
/// No rule allows them.
const LAUNCHERS: &str = ". [[ alias bg bind break builtin busybox bwrap caller case catchsegv chpst chroot chrt command \
    compgen complete compopt continue coproc daemonize dbus-run-session declare dirs disown dlx doas enable entr eval \
    exec export fakeroot faketime fc fg firejail flock for function getopts gosu hash history hyperfine if ionice jobs let \
    local logout ltrace mapfile nice nohup nsenter numactl parallel perf pkexec popd prlimit proot pushd read readarray \
    readonly return rlwrap run-parts runuser script select set setarch setpriv setsid shift shopt source sshpass \
    start-stop-daemon stdbuf strace su sudo suspend systemd-run taskset time timeout torsocks toybox trap typeset ulimit \
    umask unalias unbuffer unset unshare until valgrind wait watch watchexec while xargs xvfb-run env";

/// The shell's own commands that change nothing. A rule allows them as it does programs.
const BUILTINS: &str = ": [ cd echo exit false printf pwd test true type";

/// Programs with so many ways to start others (by options, escapes or remote shells) that no rule
/// allows them.
const ESCAPING: &str = "at batch crontab dc ed emacs emacsclient ex ftp gdb gnuplot less lldb mail mailx man more most nano nmap \
    nvim pico rsync rvim scp screen sftp ssh tar telnet tmux vi view vim zip";

/// Languages, build tools and package managers: a rule must also name what they run.
const RUNNERS: &str = "ant ash awk bash bazel bun bundle bunx cargo cmake composer conda csh dash deno docker dotnet \
    elixir expect fish gawk gem go gradle gradlew groovy guile helm java jbang jshell julia just kotlin ksh kubectl \
    lua luajit make gmake mawk meson mix mksh mvn mvnw mysql nawk ninja nix node nodejs npm npx ocaml octave osascript \
    perl php pip pipenv pipx pnpm pnpx podman poetry powershell psql pwsh pypy python r rake rscript ruby rye sbt scala \
    sh sqlite swift task tclsh tcsh ts-node tsx uv uvx yarn yash zig zsh";

/// Programs that take a command line, or a part of one, as an argument.
const EVALUATING: &str = "ash bash busybox csh dash entr env eval fish flock hyperfine ksh mksh parallel runuser script sh su \
    tcsh trap watch watchexec xargs yash zsh";

/// Programs that write their arguments out.
const PRINTERS: &str = "echo printf";

/// Programs that run a file that an argument names.
const FILE_RUNNERS: &str = ". ash awk bash bun csh dash deno fish gawk ksh lua node nodejs perl php pwsh pypy python rscript \
    ruby sh source tclsh ts-node tsx yash zsh";

/// What build tools read without being told.
const BUILD_FILES: &[(&str, &[&str])] = &[
    ("make gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("npm npx pnpm yarn bun", &["package.json"]),
    ("just", &["justfile", "Justfile"]),
    ("rake", &["Rakefile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
];

/// Words of a shell's grammar that may stand before a command.
const KEYWORDS: &str = "! { } coproc do elif else if then until while";

/// Programs that change no file that their arguments name.
const READERS: &str = "base64 basename cat cmp column comm cut diff dirname du echo egrep fgrep file find fold grep head \
    hexdump jq join ls md5sum nl od paste printf pwd readlink realpath rev rg sha1sum sha256sum sha512sum sort stat \
    strings tac tail test tr tree wc";

/// Programs that do no more with their arguments than to print or compare them, or to look whether they are there.
const NAMING: &str = ": [ basename dirname echo false printf test true type";

/// Programs that tell names, sizes and times of files, and where links lead.
const LISTING: &str = "du fd fdfind find gfind ls readlink realpath stat tree";

/// Programs that show the text of the files that their arguments name.
const SHOWING: &str = "awk base64 bat cat cmp column comm cut diff egrep fgrep fold grep head hexdump jq join nl od paste rev \
    rg sed sort strings tac tail tr uniq xxd";

/// Those of them whose first operand is no file, and the options that bring it otherwise.
const SCRIPT_OPTIONS: &[(&str, &str)] = &[
    ("awk", "-e -f --file --source"),
    ("egrep fgrep grep rg", "-e -f --file --files --regexp"),
    ("jq", "-f --from-file"),
    ("sed", "-e -f --expression --file"),
    ("tr", ""),
];

/// Options by which a program follows the links that it meets, wherever they lead.
const FOLLOWING: &[(&str, &str)] = &[
    ("ack ag", "-f --follow"),
    ("cp gcp", "-L --dereference"),
    ("egrep fgrep grep", "-R --dereference-recursive"),
    ("fd fdfind rg", "-L --follow"),
    ("find gfind", "-L -follow"),
];

/// The most letters of options in one word behind which a path is looked for.
const LETTERS: usize = 32;

/// Options that make a program run another one or write a file.
const RISKY: &[(&str, &str)] = &[
    ("ack ag bat delta", "--pager"),
    ("c++ cc clang clang++ g++ gcc", "-B -fplugin -specs -wrapper"),
    ("cargo", "--config -Z"),
    (
        "curl",
        "-D -K -O -T -c -o --alt-svc --config --cookie-jar --dump-header --etag-save --hsts --libcurl --output \
             --output-dir --remote-name --remote-name-all --stderr --trace --trace-ascii --upload-file",
    ),
    ("date", "-s --set"),
    ("diff", "--output"),
    ("file", "-C --compile"),
    ("fd fdfind", "-x -X --exec --exec-batch"),
    ("find gfind", "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"),
    (
        "git",
        "--config-env --edit-description --exec --exec-path --ext-diff --filters --git-dir --open-files-in-pager --output \
             --output-directory --receive-pack --show-signature --textconv --upload-pack --work-tree",
    ),
    ("go", "-exec --exec -toolexec --toolexec -vettool --vettool -overlay --overlay -modfile --modfile"),
    ("iconv", "-o --output"),
    ("gmake make", "-f -C -I --file --makefile --directory --eval --include-dir"),
    ("npm pnpm yarn", "--script-shell --node-options --prefix --cwd -C"),
    ("printf", "-v"),
    ("rg", "--pre --hostname-bin -z --search-zip"),
    ("sort gsort", "-o --output --compress-program -T --temporary-directory"),
    ("shuf", "-o --output"),
    ("split", "--filter"),
    ("test [", "-v -R"),
    ("tcpdump", "-w -z"),
    ("tree", "-o -R"),
    (
        "wget",
        "-a -e -i -o -O -P --append-output --config --directory-prefix --execute --output-document --output-file --use-askpass",
    ),
    ("yq", "-i --inplace"),
];

/// Commands of git that don't reach the network. A rule that names git alone allows only these;
/// anything else could be an alias.
const GIT: &str = "annotate blame branch cat-file check-attr check-ignore count-objects describe diff diff-files \
    diff-index diff-tree for-each-ref grep init log ls-files ls-tree merge-base mv name-rev reflog rev-list \
    rev-parse rm shortlog show show-ref status tag version whatchanged";

/// Commands of git that run filters, merge drivers or other programs of the repository's
/// configuration, which nothing turns off. No rule allows them.
///
/// A filter can also run where git compares a file that is newer than its index, so for `status` and
/// `diff` too: only a sandbox limits that.
const GIT_DRIVERS: &str = "add am apply archive bisect checkout checkout-index cherry-pick citool commit difftool \
    filter-branch gui hash-object interpret-trailers maintenance merge merge-file merge-recursive merge-tree mergetool \
    pull read-tree rebase reset restore revert send-email sparse-checkout stash submodule switch worktree";

/// Options of `git log` and its like that show or search changes, for which textconv programs run.
const GIT_PATCH: &str = "-p -u -c -m -G -L -S -U -W --binary --cc --check --color-words --dd --diff-merges --find-object \
    --function-context --output-indicator-new --patch --patch-with-raw --patch-with-stat --pickaxe-all \
    --pickaxe-regex --remerge-diff --unified --word-diff --word-diff-regex";

/// Options of `git diff` and its like that show how much changed and not what, for which no program runs.
const GIT_OUTLINE: &str = "--name-only --name-status --numstat --shortstat --stat --summary";

/// Options that may stand beside those: they take no value, and compare no text otherwise.
const GIT_BESIDE_OUTLINE: &str = "--cached --no-renames --oneline --staged";

fn lists(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == name)
}

/// The name of a program: without its directory, its version and its case.
pub(super) fn name(program: &str) -> String {
    let file = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
    let stem = file.strip_suffix(".exe").unwrap_or(&file);
    let bare = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    // Only what is installed by version: `command500` is a program of its own.
    if comes_by_version(bare) { bare.to_owned() } else { stem.to_owned() }
}

fn comes_by_version(name: &str) -> bool {
    lists(RUNNERS, name) || lists(ESCAPING, name) || RISKY.iter().any(|(programs, _)| lists(programs, name))
}

/// Whether a program runs what its arguments say.
pub(super) fn is_launcher(name: &str) -> bool {
    lists(LAUNCHERS, name)
}

/// Whether a program takes a command line as an argument.
pub(super) fn evaluates(name: &str) -> bool {
    lists(EVALUATING, name)
}

/// Whether a launcher's command comes behind an operand of its own.
pub(super) fn has_operand(name: &str) -> bool {
    lists("chroot chrt flock setarch taskset", name)
}

/// Whether a program writes its arguments out.
pub(super) fn prints(name: &str) -> bool {
    lists(PRINTERS, name)
}

/// Whether a program is a part of the shell, by its exact name.
pub(super) fn is_builtin(program: &str) -> bool {
    lists(BUILTINS, program)
}

/// Whether a program does no more with files than to read them.
pub(super) fn only_reads(name: &str) -> bool {
    lists(READERS, name)
}

/// Whether a program runs a file that an argument names.
pub(super) fn runs_files(name: &str) -> bool {
    lists(FILE_RUNNERS, name)
}

/// The files that a build tool reads without being told.
pub(super) fn build_files(name: &str) -> impl Iterator<Item = &'static str> {
    let of = BUILD_FILES.iter().find(|(names, _)| lists(names, name)).map(|(_, files)| files.iter());
    of.into_iter().flatten().copied()
}

/// Whether a program shows the text of the files that its arguments name.
pub(super) fn shows(name: &str) -> bool {
    lists(SHOWING, name)
}

/// Which words of a command are no files though they stand where files do: a script, or what is looked for.
pub(super) fn unread(name: &str, words: &[String]) -> Option<usize> {
    let first = |from: usize| (from..words.len()).find(|index| !words[*index].starts_with('-'));
    let (from, options) = match name {
        "git" => {
            let command = first(1).filter(|index| words[*index] == "grep")?;
            (command + 1, "-e -f")
        }
        _ => (1, SCRIPT_OPTIONS.iter().find(|(names, _)| lists(names, name))?.1),
    };
    // Where an option brings it, the first operand is a file. A value of its own is judged like one.
    let is_given = words[from..].iter().any(|word| is_one_of(word, options));
    first(from).filter(|_| !is_given)
}

/// Whether a word may be the value of an option that brings a script.
pub(super) fn may_be_script(name: &str, words: &[String], index: usize) -> bool {
    SCRIPT_OPTIONS.iter().any(|(names, _)| lists(names, name)) && words[index - 1].starts_with('-')
}

/// Whether a program tells no more of files than whether they are there.
pub(super) fn only_names(name: &str) -> bool {
    lists(NAMING, name)
}

/// Whether a program tells no more of files than their names and sizes.
pub(super) fn only_lists(name: &str) -> bool {
    lists(LISTING, name)
}

/// What of a word may be a path by itself: the value behind an option's letters, in an assignment, or behind a
/// revision.
pub(super) fn parts(word: &str) -> impl Iterator<Item = &str> {
    let letters = if word.starts_with('-') && !word.starts_with("--") { word } else { "" };
    let attached = letters.char_indices().skip(2).take(LETTERS).map(|(at, _)| &letters[at..]);
    let marked = word.match_indices(['=', ':', ',', '@', ')']).map(|(at, _)| &word[at + 1..]);
    attached.chain(marked).filter(|part| !part.is_empty())
}

/// Why a search of git may find what was committed and may not be read: it looks at more than the files.
pub(super) fn searches_revision(arguments: &[String], is_there: impl Fn(&str) -> bool) -> Option<String> {
    let command = arguments.iter().position(|word| !word.starts_with('-'))?;
    let words = arguments.get(command + 1..).filter(|_| arguments[command] == "grep")?;
    if let Some(word) = words.iter().find(|word| is_one_of(word, "--cached")) {
        return Some(format!("`{word}` makes `git grep` search what was added and not the files"));
    }
    let is_operand = |word: &&String| !word.starts_with('-');
    let given = words.iter().any(|word| is_one_of(word, "-e -f"));
    // What the last `--` is followed by are files, but where it stands before all.
    let end = words
        .iter()
        .rposition(|word| word == "--")
        .filter(|end| given || words[..*end].iter().any(|word| is_operand(&word)));
    // In a cluster of letters it isn't known where a value begins.
    let is_cluster = |word: &String| word.len() > 2 && is_one_of(word, "-A -B -C -O -e -f -m");
    let is_clear = !words.iter().any(is_cluster);
    let (mut is_value, mut is_sought) = (false, given);
    for word in &words[..end.unwrap_or(words.len())] {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if !is_operand(&word) {
            is_value = is_clear && matches!(word.as_str(), "-A" | "-B" | "-C" | "-e" | "-f" | "-m");
        } else if !std::mem::replace(&mut is_sought, true) {
            // What is looked for.
        } else {
            let is_magic = [":!", ":^", ":("].iter().any(|begin| word.starts_with(begin));
            let is_pattern = word.contains(['*', '?', '[']) && !word.contains([':', '^', '{', '@']);
            if !(is_magic || is_pattern || (end.is_none() && is_there(word))) {
                return Some(format!("`{word}` may be a revision, which `git grep` would search"));
            }
        }
    }
    None
}

/// What may be the command line that is written together with its option, as in `-S'ls a'`.
pub(super) fn attached(word: &str) -> impl Iterator<Item = &str> {
    let long = word.strip_prefix("--");
    let value = long.and_then(|word| word.split_once('=')).map(|(_, value)| value);
    let letters = word.strip_prefix('-').filter(|_| long.is_none());
    let cluster = letters.and_then(|letters| letters.split_once(['S', 'c'])).map(|(_, value)| value);
    value.into_iter().chain(cluster)
}

/// Whether a word may stand before a command.
pub(super) fn is_keyword(word: &str) -> bool {
    lists(KEYWORDS, word)
}

/// Whether a program takes commands behind options.
pub(super) fn is_finder(name: &str) -> bool {
    lists("find gfind fd fdfind", name)
}

/// Whether the word after this option of `find` or `fd` begins a command.
pub(super) fn begins_command(name: &str, option: &str) -> bool {
    match name {
        "find" | "gfind" => matches!(option, "-exec" | "-execdir" | "-ok" | "-okdir"),
        "fd" | "fdfind" => matches!(option, "-x" | "-X" | "--exec" | "--exec-batch"),
        _ => false,
    }
}

/// Why a command that a rule matches is still not allowed by it. `fed` says that its input comes from the
/// line itself, and `directory` where it runs, when elsewhere.
pub(super) fn objection(
    rule: &[String],
    words: &[String],
    fed: bool,
    directory: Option<&str>,
) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let further = words.get(rule.len()..)?;
    let name = name(program);
    if is_launcher(&name) || lists(ESCAPING, &name) {
        return Some(format!("`{name}` can run any program, so no rule allows it"));
    }
    let asks_about_itself = matches!(arguments, [only] if matches!(only.as_str(), "--version" | "--help"));
    if lists(RUNNERS, &name) && !asks_about_itself && rule.iter().skip(1).all(|word| word.starts_with('-')) {
        return Some(format!("`{name}` runs what it is given, so a rule must also name that"));
    }
    if fed && (lists(RUNNERS, &name) || evaluates(&name)) {
        return Some(format!("`{name}` may run what it is given as input"));
    }
    let steers = |word: &str| {
        names_protected(word)
            || directory.is_some_and(|directory| names_protected(&format!("{directory}/{word}")))
    };
    // A script of `sed` is judged by itself.
    let script = match name.as_str() {
        "sed" | "gsed" if rule.iter().skip(1).all(|word| word.starts_with('-')) => {
            further.iter().find(|word| !word.starts_with('-'))
        }
        _ => None,
    };
    for word in further {
        if RISKY.iter().any(|(programs, options)| lists(programs, &name) && is_one_of(word, options)) {
            return Some(format!("`{word}` can make `{name}` run a program or write a file"));
        }
        if FOLLOWING.iter().any(|(programs, options)| lists(programs, &name) && is_one_of(word, options)) {
            return Some(format!(
                "`{word}` makes `{name}` follow links, which may lead out of the workspace"
            ));
        }
        if word.contains('`') || word.contains("$(") {
            return Some(format!("`{word}` holds a command that `{name}` could run"));
        }
        if !only_reads(&name) && steers(word) {
            return Some(format!("`{word}` steers agents or tools"));
        }
        if leads_outside(word) && !script.is_some_and(|script| std::ptr::eq(script, word)) {
            return Some(format!("`{word}` may lead out of the workspace"));
        }
    }
    match name.as_str() {
        "git" => git(rule.len() == 1, arguments, further),
        "go" => further
            .iter()
            .find(|word| matches!(word.split('=').next(), Some("-o" | "--o")))
            .map(|word| format!("`{word}` makes `go` write a file")),
        "sed" | "gsed" => sed(rule, further),
        "tee" => {
            further.iter().find(|word| !word.starts_with('-')).map(|word| format!("`tee` writes to `{word}`"))
        }
        "uniq" | "guniq" | "xxd" => further
            .iter()
            .rfind(|word| !word.starts_with('-'))
            .filter(|_| arguments.iter().filter(|word| !word.starts_with('-')).count() > 1)
            .map(|word| format!("`{name}` may write to `{word}`")),
        "make" | "gmake" => further
            .iter()
            .find(|word| word.contains('='))
            .map(|word| format!("`{word}` sets a variable, which can hold a command")),
        _ => None,
    }
}

/// Whether a word is one of the options, with a value, in a cluster of letters or abbreviated.
fn is_one_of(word: &str, options: &str) -> bool {
    options.split_ascii_whitespace().any(|option| {
        if let Some(long) = option.strip_prefix("--") {
            // GNU programs take any beginning of a long option for the option.
            word.strip_prefix("--")
                .and_then(|word| word.split('=').next())
                .is_some_and(|given| !given.is_empty() && long.starts_with(given))
        } else if option.len() == 2 {
            word.strip_prefix('-')
                .is_some_and(|letters| !letters.starts_with('-') && letters.contains(&option[1..]))
        } else {
            word.split('=').next() == Some(option)
        }
    })
}

/// Whether a word names what is protected, also as the value of an option.
pub(super) fn names_protected(word: &str) -> bool {
    word.split(['=', ':', ',', '@'])
        .any(|value| matches!(protection(value, None), Protection::Tier1 { .. } | Protection::Denied))
}

/// Whether a word names an absolute path or goes up, also as the value of an option.
pub(super) fn leads_outside(word: &str) -> bool {
    // Which letters of a cluster are options, and where a value begins, isn't known.
    let cluster = word.strip_prefix('-').unwrap_or("");
    cluster
        .split_once('/')
        .is_some_and(|(letters, _)| letters.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        || cluster.split('/').any(|component| component.ends_with(".."))
        || word
            .split(['=', ':', ',', '@'])
            .any(|value| value.starts_with('/') || value.split('/').any(|component| component == ".."))
}

fn git(bare_rule: bool, arguments: &[String], further: &[String]) -> Option<String> {
    let position = arguments.iter().position(|word| !word.starts_with('-'));
    let (global, command) = arguments.split_at(position.unwrap_or(arguments.len()));
    let harmless = ["--no-pager", "--no-optional-locks", "--version", "--help"];
    if let Some(option) =
        global.iter().find(|word| further.contains(word) && !harmless.contains(&word.as_str()))
    {
        return Some(format!("`{option}` before the command of git can change what it runs"));
    }
    let command = command.first().map_or("", String::as_str);
    if bare_rule && !command.is_empty() && !lists(GIT, command) {
        return Some(format!("`git {command}` needs a rule that names it"));
    }
    if let Some(objection) = git_drivers(command, arguments) {
        return Some(objection);
    }
    let letters = match command {
        "archive" | "format-patch" => "-o",
        "clone" => "-c -u",
        "diff" | "grep" | "log" | "show" => "-O",
        "rebase" => "-x",
        _ => return None,
    };
    let risky = further.iter().find(|word| is_one_of(word, letters))?;
    Some(format!("`{risky}` can make `git {command}` run a program or write a file"))
}

/// Whether a command of git can run a program that the repository's configuration names.
fn git_drivers(command: &str, arguments: &[String]) -> Option<String> {
    if lists(GIT_DRIVERS, command) {
        return Some(format!("`git {command}` can run programs that the repository's configuration names"));
    }
    let mut operands = arguments.iter().map(String::as_str).skip_while(|word| *word != command).skip(1);
    let has = |options: &str| operands.clone().any(|word| is_one_of(word, options));
    let needed: &[&str] = match command {
        // Of one file's text, and of nothing else: this shows no change.
        "cat-file" if !operands.clone().any(|word| matches!(word, "-e" | "-s" | "-t")) => {
            return Some("`git cat-file` can show what was committed under any name".into());
        }
        "show" if operands.clone().all(is_text_of_revision) && operands.clone().count() == 1 => &[],
        "diff" | "diff-index" | "diff-tree" | "show" if is_outline(operands.clone()) => &[],
        "diff" | "diff-files" | "diff-index" | "diff-tree" | "show" | "whatchanged" => {
            &["--no-ext-diff", "--no-textconv"]
        }
        "log" | "reflog" | "rev-list" | "shortlog" if has(GIT_PATCH) => &["--no-ext-diff", "--no-textconv"],
        "status" if has("-v --verbose") => {
            return Some(
                "`git status` with changes can run programs that the repository's configuration names".into(),
            );
        }
        "annotate" | "blame" => &["--no-textconv"],
        _ => return None,
    };
    // Further on they could be the value of another option, or a path.
    let first: Vec<&str> = operands.by_ref().take(needed.len()).collect();
    (!needed.iter().all(|option| first.contains(option))).then(|| {
        let needed = needed.join(" ");
        format!("`git {command}` can run programs that the repository's configuration names; begin it with `git {command} {needed}`")
    })
}

/// Whether the arguments of `git diff` ask for an outline, and for nothing that could be more.
fn is_outline<'a>(operands: impl Iterator<Item = &'a str>) -> bool {
    let options: Vec<&str> =
        operands.take_while(|word| *word != "--").filter(|word| word.starts_with('-')).collect();
    options.iter().any(|word| lists(GIT_OUTLINE, word))
        && options.iter().all(|word| lists(GIT_OUTLINE, word) || lists(GIT_BESIDE_OUTLINE, word))
}

/// Whether this is `<revision>:<path>`, as against a revision found by a text.
fn is_text_of_revision(word: &str) -> bool {
    word.split_once(':').is_some_and(|(revision, _)| !revision.is_empty())
        && !word.starts_with('-')
        && !word.contains(['^', '{'])
}

/// Its scripts can run programs and write files; only the simplest commands are known not to. A script
/// that the rule itself names is the user's.
fn sed(rule: &[String], further: &[String]) -> Option<String> {
    let harmless = ["-n", "-E", "-r", "--quiet", "--silent", "--regexp-extended"];
    if let Some(option) =
        further.iter().find(|word| word.starts_with('-') && !harmless.contains(&word.as_str()))
    {
        return Some(format!("`{option}` can make `sed` run a program or write a file"));
    }
    if rule.iter().skip(1).any(|word| !word.starts_with('-')) {
        return None;
    }
    let script = further.iter().find(|word| !word.starts_with('-'))?;
    // A `;` within an expression is not looked for: then no piece is a command.
    let harmless = script.split(';').all(|piece| is_harmless_in_sed(piece.trim_matches(' ')));
    (!harmless).then(|| format!("`{script}` is a script that can make `sed` run a program or write a file"))
}

/// Whether a command of `sed` only prints, deletes, ends, or replaces plain text in what is printed.
fn is_harmless_in_sed(command: &str) -> bool {
    if command.contains(['\n', '[']) {
        return false;
    }
    let mut rest = command;
    for _ in 0..2 {
        let Some(behind) = behind_address(rest) else { return false };
        rest = behind;
        match rest.strip_prefix(',') {
            Some(second) if rest.len() < command.len() => rest = second,
            _ => break,
        }
    }
    match rest.strip_prefix("s/") {
        None => matches!(rest, "p" | "d" | "q" | "="),
        Some(parts) => {
            let mut parts = parts.split('/');
            let plain = |part: Option<&str>| part.is_some_and(|part| !part.ends_with('\\'));
            plain(parts.next())
                && plain(parts.next())
                && parts.next().is_some_and(|flags| {
                    flags.bytes().all(|flag| matches!(flag, b'g' | b'i' | b'I' | b'p' | b'0'..=b'9'))
                })
                && parts.next().is_none()
        }
    }
}

/// What follows an address of a line, if there is one: a number, `$`, or an expression.
fn behind_address(text: &str) -> Option<&str> {
    if let Some(expression) = text.strip_prefix('/') {
        let (inside, behind) = expression.split_once('/')?;
        return Some(behind).filter(|_| !inside.ends_with('\\'));
    }
    Some(text.strip_prefix('$').unwrap_or_else(|| text.trim_start_matches(|c: char| c.is_ascii_digit())))
}
