//! The usage texts of the program: that of httpd, a short one, and the help page.

use super::help::HTTPD;

/// httpd's own usage text.
pub(super) fn usage(program: &str) -> String {
    let blank = " ".repeat(program.len());
    format!(
        "Usage: {program} [-D name] [-d directory] [-f file]
       {blank} [-C \"directive\"] [-c \"directive\"]
       {blank} [-k start|restart|graceful|graceful-stop|stop]
       {blank} [-v] [-V] [-h] [-l] [-L] [-t] [-T] [-S] [-X]
Options:
{}",
        options()
    )
}

/// httpd's options, a line each.
fn options() -> String {
    HTTPD.iter().map(|word| format!("  {:<19}: {}\n", word.term(), word.meaning)).collect()
}

/// The usage in three lines.
pub(super) fn short_usage(program: &str) -> String {
    format!(
        "Usage: {program} [--port N] [DIR]                       serve a directory, or the demonstration
       {program} -f FILE [-t | -S | -M | -k start|...]  what httpd does
       {program} check|explain|ctl|cache ...            look into a configuration, or a running server
`{program} --help` says more.
"
    )
}

/// The help page.
pub(super) fn help(program: &str) -> String {
    format!(
        "{program}: a web server that reads Apache httpd 2.4 configuration unchanged

A first look, with an embedded configuration:
  {program}                      serve a small demonstration site on http://127.0.0.1:8080/
  {program} --port 8000 DIR      serve a directory on another port

Your own configuration:
  {program} check -f /etc/apache2/apache2.conf             all that is wrong with it, and what to write instead
  {program} -t -f /etc/apache2/apache2.conf                check it as httpd does: Syntax OK, or the errors
  {program} -S -f /etc/apache2/apache2.conf                show its virtual hosts and run settings
  {program} -f /etc/apache2/apache2.conf -DFOREGROUND      serve it, in the foreground
  {program} -f /etc/apache2/apache2.conf -k start          serve it as a daemon; then -k graceful, -k stop ...
  {program} -f /etc/apache2/apache2.conf -k upgrade        after its file was replaced: the new program takes over

Know what is in effect ({program} check --help, explain --help, ctl --help):
  {program} explain -f /etc/apache2/apache2.conf URL       why a request is answered as it is
  {program} explain -f /etc/apache2/apache2.conf --mpm     what the numbers of processes and threads come to
  {program} ctl -f /etc/apache2/apache2.conf status        what the running server does; also diff, config, log-level ...
  {program} cache -f /etc/apache2/apache2.conf list        the stored responses; also purge URL, clean
  {program} bundle -f /etc/apache2/apache2.conf -o FILE    the whole configuration in one file, for other machines
  {program} completions bash|zsh|fish                      completion for your shell

{}
Names for -D that {program} itself looks at:
  FOREGROUND, NO_DETACH : do not become a daemon
  DUMP_CONFIG           : with -t and mod_info, show the configuration as it was read
",
        options()
    )
}
