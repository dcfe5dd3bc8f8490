//! Directives that name files and directories.

use conf::values::one_of;
use conf::{Allowed, Cmd, InArgument as _, Outcome, Refusal, Setting, Settings};
use server::core_module::SHOWN;

use super::settings::{SslDir, SslServer};
use super::values::NamedFile;

/// The setting that a directive sets.
pub(super) type Field<S, T> = fn(&mut S) -> &mut Setting<T>;

/// `SSLCertificateFile` and `SSLCertificateKeyFile`: adds a file, or the name of an object in a security module.
pub(super) fn key_material(cmd: &mut Cmd<'_>, field: Field<SslServer, Vec<NamedFile>>, value: &str) -> Outcome {
    let path = if value.starts_with("pkcs11:") { value.to_string() } else { file_path(cmd, value)? };
    let file = NamedFile { path, origin: cmd.node.origin.clone() };
    let setting = field(cmd.server.edit());
    let files = setting.get().into_iter().flatten().cloned().chain([file]).collect();
    setting.set(files, &cmd.node.origin);
    Ok(())
}

/// Sets a file of the server.
pub(super) fn file(cmd: &mut Cmd<'_>, field: Field<SslServer, String>, value: &str) -> Outcome {
    let path = file_path(cmd, value)?;
    cmd.server_set(field, path)
}

/// Sets a directory of the server.
pub(super) fn directory(cmd: &mut Cmd<'_>, field: Field<SslServer, String>, value: &str) -> Outcome {
    let path = directory_path(cmd, value)?;
    cmd.server_set(field, path)
}

/// Sets a file of a section.
pub(super) fn section_file<S: Settings>(cmd: &mut Cmd<'_>, field: Field<S, String>, value: &str) -> Outcome {
    let path = file_path(cmd, value)?;
    cmd.set(field, path)
}

/// Sets a directory of a section.
pub(super) fn section_directory<S: Settings>(cmd: &mut Cmd<'_>, field: Field<S, String>, value: &str) -> Outcome {
    let path = directory_path(cmd, value)?;
    cmd.set(field, path)
}

/// Sets a path that is allowed only outside sections.
pub(super) fn ca(
    cmd: &mut Cmd<'_>,
    set: fn(&mut Cmd<'_>, Field<SslDir, String>, &str) -> Outcome,
    field: Field<SslDir, String>,
    value: &str,
) -> Outcome {
    set(cmd, field, value)?;
    if in_section(cmd) { Err("Your SSL library does not have support for per-directory CA".into()) } else { Ok(()) }
}

/// `SSLOpenSSLConfCmd`: accepts the commands of OpenSSL 3.0 for a server's certificates.
pub(super) fn openssl_command(cmd: &mut Cmd<'_>, name: &str, value: &str) -> Outcome {
    #[derive(Clone, Copy)]
    enum Takes {
        Text,
        File,
        Directory,
    }
    use Takes::{Directory, File, Text};
    const COMMANDS: [(&str, Takes); 28] = [
        ("SignatureAlgorithms", Text),
        ("ClientSignatureAlgorithms", Text),
        ("Curves", Text),
        ("Groups", Text),
        ("MinProtocol", Text),
        ("MaxProtocol", Text),
        ("Protocol", Text),
        ("Options", Text),
        ("VerifyMode", Text),
        ("CipherString", Text),
        ("Ciphersuites", Text),
        ("ECDHParameters", Text),
        ("Certificate", File),
        ("PrivateKey", File),
        ("ServerInfoFile", File),
        ("ChainCAFile", File),
        ("ChainCAPath", Directory),
        ("VerifyCAFile", File),
        ("VerifyCAPath", Directory),
        ("VerifyCAStore", Text),
        ("ChainCAStore", Text),
        ("RequestCAFile", File),
        ("ClientCAFile", File),
        ("RequestCAPath", Directory),
        ("ClientCAPath", Directory),
        ("DHParameters", File),
        ("RecordPadding", Text),
        ("NumTickets", Text),
    ];
    let value = match one_of(name, &COMMANDS) {
        None => return Err(Refusal::argument(1, format!("'{name}': invalid OpenSSL configuration command"))),
        Some(Text) => value.to_string(),
        Some(File) => file_path(cmd, value).in_argument(2)?,
        Some(Directory) => directory_path(cmd, value).in_argument(2)?,
    };
    cmd.server_push(|s: &mut SslServer| &mut s.openssl_commands, (name.to_string(), value))
}

/// Resolves the name of a file. If the configuration is only shown, the name stays as it is and the file need not
/// exist.
fn file_path(cmd: &Cmd<'_>, value: &str) -> Result<String, String> {
    if cmd.context.language.is_defined(SHOWN) {
        return Ok(value.to_string());
    }
    let path = cmd.context.server_relative(value);
    match cmd.context.system.is_filled_file(&path) {
        true => Ok(path),
        false => Err(format!("{}: file '{path}' does not exist or is empty", cmd.row.name)),
    }
}

fn directory_path(cmd: &Cmd<'_>, value: &str) -> Result<String, String> {
    let path = cmd.context.server_relative(value);
    match cmd.context.system.is_dir(&path) {
        true => Ok(path),
        false => Err(format!("{}: directory '{path}' does not exist", cmd.row.name)),
    }
}

/// Whether the directive is inside a section, including `<If>`.
pub(super) fn in_section(cmd: &Cmd<'_>) -> bool {
    !cmd.place.allowed.meets(Allowed::SERVER)
}
