//! `docs/directives.md`: every directive, by module.

use std::fmt::Write as _;

use conf::{Allowed, Args, Directive, Face};

use super::title;

/// The page.
pub(super) fn page(faces: &[&'static Face]) -> String {
    let mut out = String::from(
        "# Directives\n\n\
         Made from the tables of the program by `cargo xtask docs`: this is what it knows, in the words of `tsubame -L`.\n\n\
         - **Where**: *server* is outside all sections (and in `<VirtualHost>`, unless *not in VirtualHost* is said),\n  \
           *sections* is `<Directory>`, `<Files>`, `<Location>`, `<If>` and their relatives.\n\
         - **.htaccess**: the class that `AllowOverride` must have, if the directive may stand there at all.\n\
         - Sections in *italics* under **Takes** are read at once, before anything is applied.\n",
    );
    let modules = grouped(faces);
    index(&mut out, &modules);
    for (name, faces) in &modules {
        module(&mut out, name, faces);
    }
    out
}

/// The modules in the order of their first face, each with its faces.
fn grouped(faces: &[&'static Face]) -> Vec<(String, Vec<&'static Face>)> {
    let mut modules: Vec<(String, Vec<&'static Face>)> = Vec::new();
    for face in faces {
        let name = title(face);
        match modules.iter_mut().find(|(have, _)| *have == name) {
            Some((_, faces)) => faces.push(face),
            None => modules.push((name, vec![face])),
        }
    }
    modules
}

fn index(out: &mut String, modules: &[(String, Vec<&'static Face>)]) {
    out.push_str("\n| module | identifier | directives |\n| --- | --- | --- |\n");
    for (name, faces) in modules {
        let count: usize = faces.iter().map(|face| face.directives.len()).sum();
        let linked = if faces[0].linked { ", always there" } else { "" };
        let _ = writeln!(out, "| [{name}](#{name}) | `{}`{linked} | {count} |", faces[0].id);
    }
}

fn module(out: &mut String, name: &str, faces: &[&'static Face]) {
    let _ = writeln!(out, "\n## {name}\n");
    let mut rows: Vec<&Directive> = faces.iter().flat_map(|face| face.directives).collect();
    if rows.is_empty() {
        out.push_str("No directives of its own.\n");
        return;
    }
    rows.sort_by_key(|row| row.name.trim_start_matches('<').to_ascii_lowercase());
    out.push_str("| Takes | Default | Where | .htaccess | What it does |\n| --- | --- | --- | --- | --- |\n");
    for row in rows {
        let default = if row.default.is_empty() { String::new() } else { code(row.default) };
        let class = override_class(row.allowed);
        let _ =
            writeln!(out, "| {} | {default} | {} | {class} | {} |", takes(row), place(row.allowed), prose(row.help));
    }
}

/// The line as it is written.
fn takes(row: &Directive) -> String {
    let name = row.name;
    if name.starts_with('<') {
        let section = code(&format!("{name} …>"));
        return if matches!(row.args, Args::OnRead(_)) { format!("*{section}*") } else { section };
    }
    let arguments = match &row.args {
        Args::None(_) => "",
        Args::Take1(_) => " a",
        Args::Take2(_) => " a b",
        Args::Take12(_) => " a [b]",
        Args::Take3(_) => " a b c",
        Args::Take23(_) => " a b [c]",
        Args::Take123(_) => " a [b [c]]",
        Args::Take13(_) => " a [b c]",
        Args::Iterate(_) => " a [a …]",
        Args::Iterate2(_) => " a b [b …]",
        Args::Flag(_) => " On|Off",
        Args::Words(_) => " [a …]",
        Args::Raw(_) | Args::Section(_) | Args::OnRead(_) => " …",
    };
    code(&format!("{name}{arguments}"))
}

fn place(allowed: Allowed) -> &'static str {
    if allowed.global_only() {
        return "server, not in VirtualHost";
    }
    match allowed.phrases().0 {
        "anywhere" => "anywhere",
        phrase if phrase.starts_with("only outside") => "server",
        _ => "sections",
    }
}

fn override_class(allowed: Allowed) -> String {
    match allowed.phrases().1 {
        None => String::new(),
        Some(when) => match when.strip_prefix("includes ") {
            Some(classes) => classes.to_string(),
            None => "any".to_string(),
        },
    }
}

/// Code in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// Prose in a cell of a table.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '[' | ']' | '`' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    static FACE: Face = Face {
        id: "demo_module",
        source: "mod_demo.c",
        linked: false,
        directives: &[
            Directive::new("DemoOn", Allowed::FILEINFO, Args::Flag(|_, _| Ok(())), "On", "a|b <c>"),
            Directive::new("<Demo", Allowed::GLOBAL, Args::Section(|_, _| Ok(())), "", "Container"),
        ],
    };

    #[test]
    fn a_row_says_everything() {
        let page = page(&[&FACE]);
        assert!(page.contains("| [mod_demo](#mod_demo) | `demo_module` | 2 |\n"));
        assert!(page.contains("| `<Demo …>` |  | server, not in VirtualHost |  | Container |\n"));
        assert!(page.contains("| `DemoOn On\\|Off` | `On` | anywhere | FileInfo | a\\|b &lt;c> |\n"));
    }
}
