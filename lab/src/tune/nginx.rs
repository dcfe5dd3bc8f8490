//! A configuration of nginx with other numbers of processes and connections.

/// The directives to replace, and those that would disturb a running server.
const REPLACED: [&str; 4] = ["daemon", "pid", "worker_processes", "worker_connections"];

/// The number after a directive of the main file, if it is one.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().filter_map(|line| value_of(line, name)?.parse().ok()).next_back()
}

/// The value of a directive in a line, even in `events { worker_connections 9; }` on one line.
fn value_of<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let line = line.split('#').next().unwrap_or_default();
    let at = line.find(name)?;
    let is_word = line[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || "{;".contains(before));
    let rest = line[at + name.len()..].strip_prefix(char::is_whitespace).filter(|_| is_word)?;
    Some(rest.split(';').next()?.trim())
}

/// The text for the foreground, with its own pid file. Given numbers replace the original ones.
pub(super) fn replaced(text: &str, pid_file: &str, numbers: Option<[u64; 2]>) -> String {
    let names = if numbers.is_some() { &REPLACED[..] } else { &REPLACED[..2] };
    let mut out = format!("daemon off;\npid {pid_file};\n");
    if let Some([processes, _]) = numbers {
        out += &format!("worker_processes {processes};\n");
    }
    let mut has_events = false;
    for line in text.lines() {
        let mut line = line.to_owned();
        for name in names {
            while let Some(value) = value_of(&line, name).map(str::to_owned)
                && let Some(at) = line.find(name)
            {
                let end = line[at..].find(';').map_or(line.len(), |end| at + end + 1);
                debug_assert!(line[at..end].contains(&value));
                line.replace_range(at..end, "");
            }
        }
        if let Some([_, connections]) = numbers
            && let Some(at) = line.find("events").filter(|_| line.trim_start().starts_with("events"))
            && let Some(brace) = line[at..].find('{')
        {
            line.insert_str(at + brace + 1, &format!(" worker_connections {connections};"));
            has_events = true;
        }
        out += &line;
        out.push('\n');
    }
    match numbers {
        Some([_, connections]) if !has_events => out + &format!("events {{ worker_connections {connections}; }}\n"),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "user www-data;\nworker_processes auto; # as many\npid /run/nginx.pid;\n\
                        events {\n    worker_connections 768;\n}\nhttp { access_log off; }\n";

    #[test]
    fn numbers_are_read() {
        assert_eq!(number(TEXT, "worker_connections"), Some(768));
        assert_eq!(number(TEXT, "worker_processes"), None);
        assert_eq!(number("events { worker_connections 9; }", "worker_connections"), Some(9));
        assert_eq!(number("# worker_connections 9;", "worker_connections"), None);
    }

    #[test]
    fn numbers_are_replaced_and_nothing_that_runs_is_touched() {
        let text = replaced(TEXT, "/x/pid", Some([2, 1024]));
        let expected = "daemon off;\npid /x/pid;\nworker_processes 2;\nuser www-data;\n # as many\n\n\
                        events { worker_connections 1024;\n    \n}\nhttp { access_log off; }\n";
        assert_eq!(text, expected);
        let present = replaced(TEXT, "/x/pid", None);
        assert!(present.contains("worker_processes auto;") && !present.contains("/run/nginx.pid"), "{present}");
    }
}
