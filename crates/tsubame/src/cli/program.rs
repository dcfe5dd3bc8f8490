//! The name by which this program was called. Under a name of httpd it behaves exactly like httpd.

/// The file name by which the server was called: `apache2`, `httpd`, `tsubame`.
pub(crate) fn program_name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&called).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "tsubame".into())
}

/// The program as it was called, for a shell: by its path if it was not found in `PATH`.
pub(crate) fn called() -> String {
    let called = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    match called.chars().all(|c| c.is_alphanumeric() || "/._+-".contains(c)) {
        true => called,
        false => format!("'{}'", called.replace('\'', r"'\''")),
    }
}

/// Whether this is one of httpd's names. Under such a name the program behaves exactly like httpd.
pub(crate) fn is_httpd_name(program: &str) -> bool {
    matches!(program, "httpd" | "apache2" | "apache")
}
