//! Commands that destroy a system or everything that its user has: never run, whatever the rules and whoever allows it.
//!
//! Only what can hardly be meant is named here. What deletes or overwrites less asks, as everything does.

use super::programs;
use roo_shell::Command;

/// Directories of a system, all of which nobody means to delete at once.
const DIRECTORIES: &[&str] = &[
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/opt",
    "/private",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/var",
];

/// Prefixes of the names of disks below `/dev/`.
const DISKS: &[&str] = &[
    "disk", "dm-", "hd", "kmem", "mapper/", "md", "mem", "mmcblk", "nvme", "port", "rdisk", "sd", "vd", "xvd",
];

/// Returns what a command with these arguments would destroy, as a sentence about it.
pub(super) fn destroys(name: &str, arguments: &[String]) -> Option<String> {
    let operands = || arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    let is_recursive = || {
        arguments.iter().any(|word| {
            word.len() > 2 && "--recursive".starts_with(word.as_str())
                || (!word.starts_with("--") && word.starts_with('-') && word.contains(['r', 'R']))
        })
    };
    let everything = || operands().find(|word| is_everything(word));
    let disk = || operands().find(|word| is_disk(word));
    match name {
        "rm" if is_recursive() => everything().map(|path| format!("would delete everything in `{path}`")),
        "chmod" | "chown" | "chgrp" if is_recursive() => {
            everything().map(|path| format!("would change the permissions of everything in `{path}`"))
        }
        "mv" => {
            let sources: Vec<&str> = operands().collect();
            let (_, sources) = sources.split_last()?;
            let path = sources.iter().find(|path| is_everything(path))?;
            Some(format!("would move everything in `{path}` away"))
        }
        "find" | "gfind" => {
            let path = operands().next().filter(|path| is_everything(path))?;
            let deletes = arguments.iter().any(|word| word == "-delete")
                || arguments
                    .windows(2)
                    .any(|pair| pair[0].starts_with("-exec") && programs::name(&pair[1]) == "rm");
            let is_choice = |word: &String| {
                word.starts_with('-')
                    && !matches!(
                        word.as_str(),
                        "-delete" | "-depth" | "-xdev" | "-mount" | "-exec" | "-execdir" | "-type" | "-print"
                    )
                    && !word
                        .trim_start_matches('-')
                        .chars()
                        .all(|letter| matches!(letter, 'r' | 'R' | 'f' | 'v'))
            };
            (deletes && !arguments.iter().any(is_choice))
                .then(|| format!("would delete everything in `{path}`"))
        }
        "dd" => {
            let disk =
                arguments.iter().filter_map(|word| word.strip_prefix("of=")).find(|path| is_disk(path))?;
            Some(format!("would overwrite the disk `{disk}`"))
        }
        "tee" | "shred" | "wipefs" | "blkdiscard" | "mkswap" => {
            disk().map(|disk| format!("would overwrite the disk `{disk}`"))
        }
        "cp" => operands()
            .next_back()
            .filter(|path| is_disk(path))
            .map(|disk| format!("would overwrite the disk `{disk}`")),
        "kill" => (arguments.len() > 1 && arguments.last().is_some_and(|last| last == "-1"))
            .then(|| "would end every process of its user".to_owned()),
        name if name.starts_with("mkfs") || name == "mke" || name == "newfs" => operands()
            .find(|path| path.starts_with("/dev/"))
            .map(|disk| format!("would erase the disk `{disk}`")),
        _ => None,
    }
}

/// Returns what a redirection of a command would destroy.
pub(super) fn redirects(command: &Command) -> Option<String> {
    let targets = command.redirects.iter().filter(|redirect| redirect.operator.contains('>'));
    let mut targets = targets.filter_map(|redirect| Some(redirect.target.as_ref()?.visible.as_str()));
    targets.find(|path| is_disk(path)).map(|disk| format!("would overwrite the disk `{disk}`"))
}

/// Returns what a function would destroy that starts itself twice, forever.
pub(super) fn multiplies(line: &str) -> Option<String> {
    let squeezed: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    squeezed.match_indices("(){").find_map(|(at, begin)| {
        let name = squeezed[..at].rsplit([';', '&', '|', '{', '}', '(', ')']).next().unwrap_or_default();
        let body = &squeezed[at + begin.len()..];
        (!name.is_empty() && body.starts_with(&format!("{name}|{name}&")))
            .then(|| "would start processes until the machine stops responding".to_owned())
    })
}

/// Returns whether a path is the root of everything, a home directory or a directory of the system.
fn is_everything(path: &str) -> bool {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let names = match names.as_slice() {
        [rest @ .., "*" | ".*" | "**"] if path.contains('/') => rest,
        names => names,
    };
    if path.starts_with('/') {
        let above = names.iter().take_while(|name| **name == "..").count();
        let names = &names[above..];
        return names.is_empty()
            || (names.len() == 1 && DIRECTORIES.iter().any(|known| known[1..] == *names[0]));
    }
    matches!(names, ["~" | "$HOME" | "${HOME}"])
        || matches!(names, [home] if home.starts_with('~') && path.len() > 1 && !home.contains('.') && !home.ends_with('~'))
}

fn is_disk(path: &str) -> bool {
    path.strip_prefix("/dev/").is_some_and(|name| {
        DISKS.iter().any(|begin| {
            let Some(rest) = name.strip_prefix(begin) else { return false };
            match *begin {
                "kmem" | "mem" | "port" => rest.is_empty(),
                _ => !rest.is_empty(),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Somewhere;
    use super::super::{CommandVerdict, judge};
    use roo_formats::config::Execute;

    fn destroys(line: &str) -> Option<String> {
        let rule = |words: &str| words.split(' ').map(str::to_owned).collect();
        // Whatever the user allows.
        let allow =
            ["rm", "rm -rf /", "dd", "find", "chmod", "echo", "sudo rm", "bash -c"].map(rule).to_vec();
        match judge(&Execute { allow, ..Execute::default() }, line, &Somewhere) {
            CommandVerdict::Destroys { what } => Some(what),
            _ => None,
        }
    }

    #[test]
    fn what_destroys_everything_is_refused_in_plain_words() {
        for (line, what) in [
            ("rm -rf /", "would delete everything in `/`"),
            ("rm -rf /*", "would delete everything in `/*`"),
            ("rm -fr --no-preserve-root /", "would delete everything in `/`"),
            ("rm --recursive --force '/'", "would delete everything in `/`"),
            ("rm -r -f /usr", "would delete everything in `/usr`"),
            ("rm -rf /etc/", "would delete everything in `/etc/`"),
            ("rm -rf //home/./*", "would delete everything in `//home/./*`"),
            ("rm -rf /../", "would delete everything in `/../`"),
            ("rm -rf ~", "would delete everything in `~`"),
            ("rm -rf ~/", "would delete everything in `~/`"),
            ("rm -rf ~/*", "would delete everything in `~/*`"),
            ("rm -rf $HOME", "would delete everything in `$HOME`"),
            ("rm -rf \"${HOME}\"/*", "would delete everything in `${HOME}/*`"),
            ("sudo rm -rf /", "would delete everything in `/`"),
            ("ls; cd x && /bin/rm -Rf / || true", "would delete everything in `/`"),
            ("bash -c 'rm -rf /'", "would delete everything in `/`"),
            ("echo $(rm -rf ~)", "would delete everything in `~`"),
            ("timeout 5 nice rm -rf /var", "would delete everything in `/var`"),
            ("find / -delete", "would delete everything in `/`"),
            ("find ~ -type f -exec rm -rf {} \\;", "would delete everything in `~`"),
            ("chmod -R 777 /", "would change the permissions of everything in `/`"),
            ("chown -R me:me /usr", "would change the permissions of everything in `/usr`"),
            ("mv /* /tmp/x", "would move everything in `/*` away"),
            ("mv ~ /dev/null", "would move everything in `~` away"),
            ("mkfs.ext4 /dev/sda1", "would erase the disk `/dev/sda1`"),
            ("mkfs -t ext4 /dev/nvme0n1", "would erase the disk `/dev/nvme0n1`"),
            ("dd if=/dev/zero of=/dev/sda bs=1M", "would overwrite the disk `/dev/sda`"),
            ("echo x > /dev/sda", "would overwrite the disk `/dev/sda`"),
            ("> /dev/nvme0n1", "would overwrite the disk `/dev/nvme0n1`"),
            ("cat x | sudo tee /dev/sdb", "would overwrite the disk `/dev/sdb`"),
            ("cp x.img /dev/mmcblk0", "would overwrite the disk `/dev/mmcblk0`"),
            ("shred /dev/sda", "would overwrite the disk `/dev/sda`"),
            (":(){ :|:& };:", "would start processes until the machine stops responding"),
            ("bomb() { bomb | bomb & }; bomb", "would start processes until the machine stops responding"),
            ("kill -9 -1", "would end every process of its user"),
        ] {
            assert_eq!(destroys(line).as_deref(), Some(what), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not_refused() {
        for line in [
            "rm -rf ./build",
            "rm -rf build/*",
            "rm -rf *",
            "rm -rf .",
            "rm -rf /tmp/x",
            "rm -rf /tmp/*",
            "rm -rf /home/ada/project/target",
            "rm -rf ~/project/target",
            "rm -rf $HOME/.cache/x",
            "rm -rf \"$DIR\"/",
            "rm -rf usr",
            "rm /",
            "rm -f /etc",
            "rm backup~",
            "rm -rf file~",
            "echo 'rm -rf /'",
            "echo rm -rf /",
            "grep -rn 'rm -rf /' docs",
            "git commit -m 'never rm -rf /'",
            "find . -name '*.o' -delete",
            "find / -name core -delete",
            "find / -name x",
            "chmod -R u+w build",
            "chmod 755 /usr",
            "mv x /",
            "mv a b ~",
            "mkfs.ext4 disk.img",
            "dd if=/dev/sda of=disk.img",
            "dd if=/dev/zero of=/dev/null",
            "echo x > /dev/null",
            "echo x > /dev/stdout",
            "cp /dev/sda x",
            "f() { f; }; f",
            "a() { b|c & }",
            "kill -1 1234",
            "kill -9 1234",
            "ls /",
            "cat <<E\nrm -rf /\nE",
        ] {
            assert_eq!(destroys(line), None, "{line}");
        }
    }
}
