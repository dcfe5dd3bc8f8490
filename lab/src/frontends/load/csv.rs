//! The times of each request, for other programs.

use crate::load::Record;
use crate::machine::error::{Context as _, Result};

/// One line for each response, in the order in which they began.
pub(super) fn written(record: &Record) -> Result<Vec<u8>> {
    let mut samples = record.samples.clone();
    samples.sort_by_key(|times| times.began);
    let Some(start) = samples.first().map(|times| times.began) else { return Ok(HEADER.join(",").into_bytes()) };
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(HEADER).context(|| "write the times of requests".to_owned())?;
    for times in samples {
        let moments = [
            times.began - start,
            times.connected - times.began,
            times.first.saturating_duration_since(times.sent),
            times.done - times.began,
        ];
        let line = moments.map(|moment| moment.as_micros().to_string());
        out.write_record(line).context(|| "write the times of requests".to_owned())?;
    }
    out.into_inner().context(|| "write the times of requests".to_owned())
}

/// Microseconds: since the first request, to the connection, from the request to the first byte of the response, in all.
const HEADER: [&str; 4] = ["began_us", "connect_us", "first_byte_us", "total_us"];
