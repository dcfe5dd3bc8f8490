//! The usage texts of the program: that of httpd, a short one, and the help page.

/// httpd's own usage text.
pub(super) fn usage(program: &str) -> String {
    let blank = " ".repeat(program.len());
    format!(
        "Usage: {program} [-D name] [-d directory] [-f file]
       {blank} [-C \"directive\"] [-c \"directive\"]
       {blank} [-k start|restart|graceful|graceful-stop|stop]
       {blank} [-v] [-V] [-h] [-l] [-L] [-t] [-T] [-S] [-X]
Options:
  -D name            : define a name for use in <IfDefine name> directives
  -d directory       : specify an alternate initial ServerRoot
  -f file            : specify an alternate ServerConfigFile
  -C \"directive\"     : process directive before reading config files
  -c \"directive\"     : process directive after reading config files
  -e level           : show startup errors of level (see LogLevel)
  -E file            : log startup errors to file
  -v                 : show version number
  -V                 : show compile settings
  -h                 : list available command line options (this page)
  -l                 : list compiled in modules
  -L                 : list available configuration directives
  -t -D DUMP_VHOSTS  : show parsed vhost settings
  -t -D DUMP_RUN_CFG : show parsed run settings
  -S                 : a synonym for -t -D DUMP_VHOSTS -D DUMP_RUN_CFG
  -t -D DUMP_MODULES : show all loaded modules 
  -M                 : a synonym for -t -D DUMP_MODULES
  -t -D DUMP_INCLUDES: show all included configuration files
  -t                 : run syntax check for config files
  -T                 : start without DocumentRoot(s) check
  -X                 : debug mode (only one worker, do not detach)
"
    )
}

/// The usage in three lines.
pub(super) fn short_usage(program: &str) -> String {
    format!(
        "Usage: {program} [--port N] [DIR]                       serve a directory, or the demonstration
       {program} -f FILE [-t | -S | -M | -k start|...]  what httpd does
       {program} check|explain|ctl ...                  look into a configuration, or a running server
`{program} --help` says more.
"
    )
}

/// The help page.
pub(crate) fn help(program: &str) -> String {
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
  {program} completions bash|zsh|fish                      completion for your shell

{}
Names for -D that {program} itself looks at:
  FOREGROUND, NO_DETACH : do not become a daemon
  DUMP_CONFIG           : with -t and mod_info, show the configuration as it was read
",
        usage(program)
            .trim_start_matches("Usage: ")
            .split_once("Options:")
            .map_or("", |(_, options)| options)
            .trim_start_matches('\n')
    )
}
