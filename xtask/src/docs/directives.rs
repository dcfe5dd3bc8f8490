//! Writes `docs/directives.md`: every directive, in alphabetical order.

use std::fmt::Write as _;

use conf::{Args, Directive, ModuleInfo, Remark};

use super::catalogue::{Entry, class, context, entries, prose, remark};
use super::examples::Examples;
use super::infos::title;

/// The version that introduced the directives that Apache does not have.
const OURS_SINCE: &str = "Tsubame 0.2";

/// The text of the page.
pub(super) fn page(infos: &[&'static ModuleInfo], examples: &Examples) -> String {
    let entries = entries(infos);
    let mut out = String::from(
        "# Directives\n\n\
         Every directive that the program knows, to be looked up by name. Apache's directives that are not here are in\n\
         [compat.md](compat.md). `cargo xtask docs` makes this page from the program's tables; the line below each name is\n\
         the program's own help, as `tsubame -L` prints it.\n\n\
         - **Where**: *directory* is `<Directory>`, `<Files>`, `<Location>`, `<If>` and their relatives. In `.htaccess` a\n  \
           directive needs the class of `AllowOverride` that is named.\n\
         - **Since**: the first version of Apache that had it, where its manual says so.\n\
         - **Example**: lines that `tsubame -t` accepts, from the files in [examples](examples).\n\n\
         | module | identifier | directives |\n| --- | --- | --- |\n",
    );
    for (name, info) in modules(infos) {
        let own = entries.iter().filter(|entry| entry.rows.iter().any(|(module, _)| *module == name));
        let links: Vec<String> = own.map(|entry| entry.link("")).collect();
        let linked = if info.linked { ", always there" } else { "" };
        let _ = writeln!(out, "| {} | `{}`{linked} | {} |", name, info.id, links.join(", "));
    }
    out.push_str("\n## From A to Z\n");
    for entry in entries.iter().filter(|entry| !entry.rows.is_empty()) {
        section(&mut out, entry, examples);
    }
    out
}

/// The modules in the order of their first info.
pub(super) fn modules(infos: &[&'static ModuleInfo]) -> Vec<(String, &'static ModuleInfo)> {
    let mut modules: Vec<(String, &'static ModuleInfo)> = Vec::new();
    for info in infos {
        let name = title(info);
        if !modules.iter().any(|(have, _)| *have == name) {
            modules.push((name, info));
        }
    }
    modules
}

fn section(out: &mut String, entry: &Entry, examples: &Examples) {
    let Some((_, row)) = entry.rows.first() else { return };
    let fact = entry.facts.first();
    let syntax = fact.map_or("", |fact| fact.syntax);
    let _ = writeln!(out, "\n### {}\n\n    {}\n", prose(&entry.name), line(&entry.name, row, syntax));
    let _ = writeln!(out, "{}\n", by_module(entry, |row| prose(row.help)));
    let mut item = |name: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(out, "- **{name}:** {text}");
        }
    };
    let default = |row: &Directive| if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
    item("Default", by_module(entry, default));
    item("Where", place(row));
    let modules: Vec<&str> = entry.rows.iter().map(|(module, _)| module.as_str()).collect();
    item(if modules.len() > 1 { "Modules" } else { "Module" }, modules.join(", "));
    item(
        "Since",
        match fact {
            None => OURS_SINCE.into(),
            Some(fact) if fact.since.is_empty() => String::new(),
            Some(fact) => format!("Apache {}", fact.since),
        },
    );
    item(
        "Without effect",
        by_module(entry, |row| match row.remark {
            Some(Remark::WithoutEffect(why)) => remark(why),
            _ => String::new(),
        }),
    );
    item(
        "Differs from Apache",
        by_module(entry, |row| match row.remark {
            Some(Remark::Differs(how)) => remark(how),
            _ => String::new(),
        }),
    );
    if let Some(example) = examples.of(entry) {
        let _ = write!(out, "\n**Example:** {example}");
    }
}

/// The syntax of a directive.
fn line(name: &str, row: &Directive, syntax: &str) -> String {
    let arguments = match (row.syntax, syntax) {
        ("", "") if matches!(row.args, Args::Flag(_)) => "On|Off",
        ("", theirs) => theirs,
        (own, _) => own,
    };
    match name.strip_suffix('>') {
        Some(open) if arguments.is_empty() => format!("{open}> … {}", name.replace('<', "</")),
        Some(open) => format!("{open} {arguments}> … {}", name.replace('<', "</")),
        None => format!("{name} {arguments}").trim_end().to_string(),
    }
}

/// The text for the rows of all modules: once if it is the same, otherwise with the modules that it applies to.
fn by_module(entry: &Entry, say: impl Fn(&Directive) -> String) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (module, row) in &entry.rows {
        let text = say(row);
        match said.iter_mut().find(|(have, _)| *have == text) {
            Some((_, modules)) => modules.push(module),
            None => said.push((text, vec![module])),
        }
    }
    if let [(text, _)] = &said[..] {
        return text.clone();
    }
    let told = said.iter().filter(|(text, _)| !text.is_empty());
    told.map(|(text, modules)| format!("{text} ({})", modules.join(", "))).collect::<Vec<_>>().join("; ")
}

/// The places where it is allowed, in the manual's words.
fn place(row: &Directive) -> String {
    let words = [("server", "server config"), ("vhost", "virtual host"), ("directory", "directory")];
    let context = context(row.allowed);
    let mut places: Vec<String> = words
        .iter()
        .filter(|(key, _)| context.split(',').any(|have| have == *key))
        .map(|(_, word)| word.to_string())
        .collect();
    match class(row.allowed).as_str() {
        "" => {}
        "All" => places.push("`.htaccess` (`AllowOverride` with any class)".into()),
        classes => places.push(format!("`.htaccess` (`AllowOverride` with {})", classes.replace(',', " or "))),
    }
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::{Allowed, row};

    const ON: Directive = row("DemoOn", Allowed::FILEINFO, Args::Flag(|_, _| Ok(())), "On", "a|b <c>");
    const SIZE: Directive = row("DemoSize", Allowed::SECTION, Args::Take1(|_, _| Ok(())), "", "A size");

    static FACES: [ModuleInfo; 2] = [
        ModuleInfo {
            id: "demo_module",
            source: "mod_demo.c",
            linked: false,
            directives: &[
                ON,
                row("<Demo", Allowed::GLOBAL, Args::Section(|_, _| Ok(())), "", "Container"),
                SIZE.syntax("bytes").differs("It is _larger_."),
                row("Timeout", Allowed::SERVER, Args::Take1(|_, _| Ok(())), "60", "Seconds"),
            ],
        },
        ModuleInfo {
            id: "mpm_other_module",
            source: "other.c",
            linked: true,
            directives: &[ON.without_effect("No reason.")],
        },
    ];

    fn demo() -> String {
        page(&[&FACES[0], &FACES[1]], &Examples::default())
    }

    #[test]
    fn modules_have_links_to_their_directives() {
        let page = demo();
        let links = "[\\<Demo>](#demo), [DemoOn](#demoon), [DemoSize](#demosize), [TimeOut](#timeout)";
        assert!(page.contains(&format!("\n| mod_demo | `demo_module` | {links} |\n")), "{page}");
        assert!(page.contains("\n| mpm_other | `mpm_other_module`, always there | [DemoOn](#demoon) |\n"), "{page}");
    }

    #[test]
    fn a_section_says_everything() {
        let page = demo();
        let texts = [
            "### \\<Demo>\n\n    <Demo> … </Demo>\n\nContainer\n\n- **Where:** server config\n- **Module:** mod_demo\n",
            "### DemoOn\n\n    DemoOn On|Off\n\na\\|b \\<c>\n\n- **Default:** `On`\n\
             - **Where:** server config, virtual host, directory, `.htaccess` (`AllowOverride` with FileInfo)\n\
             - **Modules:** mod_demo, mpm_other\n- **Since:** Tsubame 0.2\n\
             - **Without effect:** No reason. (mpm_other)\n",
            "### DemoSize\n\n    DemoSize bytes\n\nA size\n\n- **Where:** directory\n- **Module:** mod_demo\n\
             - **Since:** Tsubame 0.2\n- **Differs from Apache:** It is \\_larger\\_.\n",
            "### TimeOut\n\n    TimeOut seconds\n\nSeconds\n\n- **Default:** `60`\n- **Where:** server config, virtual host\n\
             - **Module:** mod_demo\n",
        ];
        for text in texts {
            assert!(page.contains(text), "{text}\nis not in\n{page}");
        }
    }
}
