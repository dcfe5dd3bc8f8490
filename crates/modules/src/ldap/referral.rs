//! Referrals (RFC 4511 section 4.1.10): queries the directories named in an answer.

use conf::Level;
use server::Request;

use super::code::Code;
use super::connection::{Connection, Identity, Response};
use super::message::{Question, Search};
use super::mod_ldap::{Chase, Limits};
use super::url::Url;

/// The most hosts queried for one question, however few hops away they are: each may take long to fail.
const HOSTS_MAX: usize = 16;

/// Follows the referrals of an answer, if that is wanted. Referrals that cannot be followed are skipped, unless there
/// is nothing else.
pub(super) async fn follow(
    request: &Request,
    identity: &Identity,
    limits: &Limits,
    question: &Question<'_>,
    code: Code,
    mut response: Response,
) -> (Code, Response) {
    let anonymous = (String::new(), Vec::new());
    let identity = match limits.chase {
        Chase::Off => return (code, response),
        Chase::On => identity,
        Chase::Default => &anonymous,
    };
    let mut code = code;
    let mut open: Vec<(Vec<String>, u32)> = response.elsewhere.drain(..).map(|urls| (urls, 1)).collect();
    if code == Code::REFERRAL {
        open.push((std::mem::take(&mut response.referrals), 1));
    }
    let mut left = HOSTS_MAX;
    while let Some((urls, hop)) = open.pop() {
        if hop > limits.hops || left == 0 {
            let asked = HOSTS_MAX - left;
            request.log("ldap", Level::Debug, format!("a referral is not followed: {hop} hops, {asked} hosts"));
            continue;
        }
        let answered = ask_first(request, identity, limits, question, &urls, &mut left).await;
        let Some((reply, mut more)) = answered else { continue };
        open.extend(more.elsewhere.drain(..).map(|urls| (urls, hop + 1)));
        if reply == Code::REFERRAL {
            open.push((more.referrals, hop + 1));
        } else if code == Code::REFERRAL {
            code = reply;
        }
        response.entries.append(&mut more.entries);
    }
    (code, response)
}

/// Queries the first available of several equivalent directories.
async fn ask_first(
    request: &Request,
    identity: &Identity,
    limits: &Limits,
    question: &Question<'_>,
    urls: &[String],
    left: &mut usize,
) -> Option<(Code, Response)> {
    for text in urls {
        let why = match Url::parse(text) {
            Ok(url) if url.is_secure => "encrypted connections to directories are not supported",
            Ok(url) if url.hosts.len() > *left => "too many hosts are named",
            Ok(url) => {
                *left -= url.hosts.len();
                match exchange(identity, limits, question, &url).await {
                    Ok(answered) => return Some(answered),
                    Err(code) => code.text(),
                }
            }
            Err(why) => why,
        };
        request.log("ldap", Level::Debug, format!("the referral to {text} cannot be followed: {why}"));
    }
    None
}

async fn exchange(
    identity: &Identity,
    limits: &Limits,
    question: &Question<'_>,
    url: &Url,
) -> Result<(Code, Response), Code> {
    let open = runtime::release_worker(Connection::open(&url.hosts, limits.connect)).await;
    let mut connection = open.map_err(|_| Code::SERVER_DOWN)?;
    let bind = Question::Bind { dn: &identity.0, password: &identity.1 };
    let (code, _) = runtime::release_worker(connection.exchange(&bind, limits.operation)).await?;
    if code != Code::SUCCESS {
        connection.close();
        return Err(code);
    }
    let search;
    let question = match question {
        Question::Search(asked) => {
            let base = if url.base.is_empty() { asked.base } else { &url.base };
            search = Search { base, scope: url.scope.unwrap_or(asked.scope), ..(*asked).clone() };
            Question::Search(&search)
        }
        Question::Compare { dn, attribute, value } => {
            let dn = if url.base.is_empty() { dn } else { url.base.as_str() };
            Question::Compare { dn, attribute, value }
        }
        // A password is tried where the user was found, and nowhere else.
        Question::Bind { .. } | Question::Unbind => return Err(Code::REFERRAL),
    };
    let answered = runtime::release_worker(connection.exchange(&question, limits.operation)).await?;
    connection.close();
    Ok(answered)
}
