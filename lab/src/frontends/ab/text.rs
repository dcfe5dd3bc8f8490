//! The output of ab.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{AbOptions, completed, failures};
use crate::load::distribution::Distribution;
use crate::load::tls::Agreed;
use crate::load::url::Url;
use crate::load::{Plan, Record};

/// The percentages shown.
const PERCENTAGES: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// A line of the report: its label, a number, and the text after it, plain and as HTML.
struct Line(&'static str, String, &'static str, &'static str);

/// The lines of both forms, up to the times.
fn lines(options: &AbOptions, url: &Url, plan: &Plan, record: &Record) -> Vec<Line> {
    let seconds = record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (software, length) = record.first.clone().unwrap_or_default();
    // ab reads the first word of the field.
    let software = software.unwrap_or_default().split(' ').next().unwrap_or_default().to_owned();
    let mut lines = vec![
        Line("Server Software", software, "", ""),
        Line("Server Hostname", url.host.clone(), "", ""),
        Line("Server Port", url.port.to_string(), "", ""),
        Line("Document Path", url.path.clone(), "", ""),
        match options.any_length {
            true => Line("Document Length", "Variable".to_owned(), "", ""),
            false => Line("Document Length", length.to_string(), " bytes", " bytes"),
        },
        Line("Concurrency Level", plan.clients.to_string(), "", ""),
        Line("Time taken for tests", format!("{seconds:.3}"), " seconds", " seconds"),
        Line("Complete requests", completed(record).to_string(), "", ""),
        Line("Failed requests", failures(options, record).iter().sum::<u64>().to_string(), "", ""),
    ];
    if record.failures.write > 0 {
        lines.push(Line("Write errors", record.failures.write.to_string(), "", ""));
    }
    let others = record.responses - record.classes[2];
    if others > 0 {
        lines.push(Line("Non-2xx responses", others.to_string(), "", ""));
    }
    if options.keep {
        lines.push(Line("Keep-Alive requests", record.kept.to_string(), "", ""));
    }
    lines.push(Line("Total transferred", record.received().to_string(), " bytes", " bytes"));
    if sends(options) {
        lines.push(Line("Total body sent", record.sent_bytes.to_string(), "", ""));
    }
    lines.push(Line("HTML transferred", record.body.to_string(), " bytes", " bytes"));
    if completed(record) > 0 {
        lines.push(Line(
            "Requests per second",
            format!("{:.2}", completed(record) as f64 / seconds),
            " [#/sec] (mean)",
            "",
        ));
    }
    lines
}

/// The negotiated parameters of TLS: ab has no such lines in HTML.
fn agreed(options: &AbOptions, url: &Url, record: &Record) -> impl Iterator<Item = Line> {
    let line = |what, value| Line(what, value, "", "");
    let protocol = record.agreed.as_ref().map(|agreed| {
        let Agreed { version, suite, key_bits, secret_bits, .. } = agreed;
        line("SSL/TLS Protocol", format!("{version},{suite},{key_bits},{secret_bits}"))
    });
    let group = record.agreed.as_ref().and_then(|agreed| agreed.group.clone());
    let is_named_by_the_verdict = url.is_secure && !options.no_sni && url.host.parse::<IpAddr>().is_err();
    let name = is_named_by_the_verdict.then(|| line("TLS Server Name", url.host.clone()));
    [protocol, group.map(|group| line("Server Temp Key", group)), name].into_iter().flatten()
}

fn sends(options: &AbOptions) -> bool {
    options.request_options.post.is_some() || options.request_options.put.is_some()
}

/// Kilobytes a second: received, sent, both.
fn rates(record: &Record) -> [f64; 3] {
    let rate = |bytes: u64| bytes as f64 / 1024.0 / record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (received, sent) = (record.received(), record.sent_bytes);
    [rate(received), rate(sent), rate(received + sent)]
}

/// Milliseconds, rounded as ab does.
fn rounded(microseconds: f64) -> u64 {
    (microseconds as u64 + 500) / 1000
}

pub(super) fn plain(options: &AbOptions, url: &Url, plan: &Plan, record: &Record) -> String {
    let mut out = "\n\n\n".to_owned();
    // Writing to a string does not fail.
    let _ = write(&mut out, options, url, plan, record);
    out
}

fn write(out: &mut String, options: &AbOptions, url: &Url, plan: &Plan, record: &Record) -> std::fmt::Result {
    for Line(what, value, unit, _) in lines(options, url, plan, record) {
        writeln!(out, "{:<24}{value}{unit}", format!("{what}:"))?;
        if what == "Server Port" {
            agreed(options, url, record)
                .try_for_each(|Line(what, value, ..)| writeln!(out, "{:<24}{value}", format!("{what}:")))?;
        }
        let [connect, receive, length, exceptions] = failures(options, record);
        let parts = format!("(Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})");
        match what {
            "Server Port" | "Document Length" => writeln!(out)?,
            "Failed requests" if connect + receive + length + exceptions > 0 => writeln!(out, "   {parts}")?,
            _ => {}
        }
    }
    if completed(record) == 0 {
        return Ok(());
    }
    let each = record.elapsed.as_secs_f64() * 1000.0 / completed(record) as f64;
    writeln!(out, "Time per request:       {:.3} [ms] (mean)", each * plan.clients as f64)?;
    writeln!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)")?;
    let [received, sent, both] = rates(record);
    writeln!(out, "Transfer rate:          {received:.2} [Kbytes/sec] received")?;
    if sends(options) {
        writeln!(out, "                        {sent:.2} kb/s sent\n                        {both:.2} kb/s total")?;
    }
    times(out, options, record)?;
    if !options.no_percentiles && completed(record) > 1 {
        percentiles(out, record)?;
    }
    Ok(())
}

/// The parts of a request, as ab names them: in its table, and in its warnings.
fn parts(record: &Record) -> [(&'static str, &'static str, &Distribution); 4] {
    [
        ("Connect:", "the initial connection time", &record.setup),
        ("Processing:", "the processing time", &record.processing),
        ("Waiting:", "the waiting time", &record.wait),
        ("Total:", "the total time", &record.total),
    ]
}

fn times(out: &mut String, options: &AbOptions, record: &Record) -> std::fmt::Result {
    writeln!(out, "\nConnection Times (ms)")?;
    if options.no_deviations {
        writeln!(out, "              min   avg   max")?;
        for (name, _, distribution) in parts(record) {
            let [least, mean, _, _, most] = distribution.figures();
            writeln!(out, "{name:<12}{:>5} {:>5}{:>5}", rounded(least), rounded(mean), rounded(most))?;
        }
        return Ok(());
    }
    writeln!(out, "              min  mean[+/-sd] median   max")?;
    for (name, _, distribution) in parts(record) {
        let [least, mean, deviation, median, most] = distribution.figures();
        let (least, mean, median, most) = (rounded(least), rounded(mean), rounded(median), rounded(most));
        writeln!(out, "{name:<12}{least:>5} {mean:>4} {:>5.1} {median:>6} {most:>7}", deviation / 1000.0)?;
    }
    for (_, what, distribution) in parts(record) {
        let [_, mean, deviation, median, _] = distribution.figures();
        let apart = rounded(mean).abs_diff(rounded(median)) as f64;
        let deviation = deviation / 1000.0;
        if apart > 2.0 * deviation {
            writeln!(out, "ERROR: The median and mean for {what} are more than twice the standard")?;
            writeln!(out, "       deviation apart. These results are NOT reliable.")?;
        } else if apart > deviation {
            writeln!(out, "WARNING: The median and mean for {what} are not within a normal deviation")?;
            writeln!(out, "        These results are probably not that reliable.")?;
        }
    }
    Ok(())
}

fn percentiles(out: &mut String, record: &Record) -> std::fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percentage in PERCENTAGES {
        let time = rounded(record.total.0.value_at_quantile(f64::from(percentage) / 100.0) as f64);
        let longest = if percentage == 100 { " (longest request)" } else { "" };
        writeln!(out, " {percentage:>3}%  {time:>5}{longest}")?;
    }
    Ok(())
}

/// The same as HTML tables (`-w`).
pub(super) fn html(options: &AbOptions, url: &Url, plan: &Plan, record: &Record) -> String {
    let (table, row, cell) = (&options.table_attributes, &options.row_attributes, &options.cell_attributes);
    let mut out = format!("\n\n\n<table {table}>\n");
    let mut line = |head: &str, value: &str| {
        out.push_str(&format!("<tr {row}>{head}<td colspan=2 {cell}>{value}</td></tr>\n"));
    };
    let head = |what: &str| format!("<th colspan=2 {cell}>{what}:</th>");
    for Line(what, value, _, unit) in lines(options, url, plan, record) {
        line(&head(what), &format!("{}{unit}", escaped(&value)));
        let [connect, receive, length, exceptions] = failures(options, record);
        if what == "Failed requests" && connect + receive + length + exceptions > 0 {
            let text = format!("   (Connect: {connect}, Length: {length}, Exceptions: {exceptions})");
            line(&format!("<td colspan=4 {cell}>{text}</td>"), "");
        }
    }
    if completed(record) > 0 {
        let [received, sent, both] = rates(record);
        line(&head("Transfer rate"), &format!("{received:.2} kb/s received"));
        if sends(options) {
            let empty = format!("<td colspan=2 {cell}>&nbsp;</td>");
            line(&empty, &format!("{sent:.2} kb/s sent"));
            line(&empty, &format!("{both:.2} kb/s total"));
        }
        out.push_str(&format!("<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>\n"));
        out.push_str(&format!(
            "<tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   <th {cell}>max</th></tr>\n"
        ));
        for (name, _, distribution) in parts(record) {
            if name != "Waiting:" {
                let [least, mean, _, _, most] = distribution.figures();
                let cells = [least, mean, most].map(|time| format!("<td {cell}>{:>5}</td>", rounded(time)));
                out.push_str(&format!("<tr {row}><th {cell}>{name}</th>{}</tr>\n", cells.concat()));
            }
        }
    }
    out.push_str("</table>\n");
    out
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
