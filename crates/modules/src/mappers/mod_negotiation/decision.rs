//! The choice of a variant, and the fields of the response that follow from it.

use conf::Level;
use server::Request;

use super::accept::{Terms, Wishes};
use super::map::{is_map, named_by_map};
use super::offer::Offer;
use super::report;
use super::select::{Choice, Chosen, Encoded, Variant};
use super::settings::{Force, NegotiationDir};

/// Chooses a variant, and sets the fields of the response. `Err`: the response is this status.
pub(super) async fn decide(offer: &Offer, request: &mut Request, scripts: bool) -> Result<usize, u16> {
    let neighbours = |v: &Variant| !v.name.contains('/') && v.body.is_none();
    let transparent = matches!(&*request.data.method, "GET" | "HEAD")
        && request.mapped.path_info.is_empty()
        && offer.variants.iter().all(neighbours);
    let terms = if transparent { Terms::of(request) } else { Terms::USUAL };
    let mut wishes = Wishes::of(request);
    wishes.rate_scripts(scripts, &terms);
    let slots = request.dir.slots.clone();
    let conf = slots.get::<NegotiationDir>();
    let force = conf.force.get().copied().unwrap_or(Force { prefer: true, fallback: false });
    let encoded = match (request.env.contains("no-gzip"), request.env.get("gzip-only-text/html")) {
        (true, _) => Encoded::None,
        (false, Some("1")) => Encoded::Html,
        _ => Encoded::All,
    };
    let choice = Choice {
        wishes: &wishes,
        terms,
        priority: conf.priority.get().map_or(&[], Vec::as_slice),
        prefer: force.prefer,
        fallback: force.fallback,
        language: request.env.get("prefer-language"),
        encoded,
    };
    let length = |index| offer.length(index);
    let Chosen { best, sure } = choice.choose(&offer.variants, &length);
    let asked = best.filter(|_| request.is_hypothetical());
    let reason = asked.map(|best| choice.reason(&offer.variants, best, &length));
    match best {
        Some(best) if sure => {
            if let Some(reason) = reason {
                request.note_step("negotiation", None, |_| format!("{}: {reason}", offer.variants[best].name));
            }
            if transparent {
                check_choice(offer, request, best).await?;
                let name = report::escape_segment(&offer.variants[best].name);
                request.response.err_headers_out.set("Content-Location", name);
            }
            report::set_fields(request, offer, terms.alternates, transparent.then_some("choice"));
            Ok(best)
        }
        _ => {
            report::set_fields(request, offer, true, transparent.then_some("list"));
            request.notes.set("variant-list", report::list(&offer.variants));
            if transparent && terms.transparent_client {
                return Err(300);
            }
            let text = format!("AH00690: no acceptable variant: {}", request.mapped.filename);
            request.log("negotiation", Level::Error, text);
            Err(406)
        }
    }
}

/// Checks a variant from a map: it must exist, and must not be negotiable itoffer.
async fn check_choice(offer: &Offer, request: &mut Request, best: usize) -> Result<(), u16> {
    if offer.multiviews {
        return Ok(());
    }
    let found = named_by_map(request, &offer.variants[best].name).await?;
    let negotiated = found.response.err_headers_out.contains("TCN");
    if found.response.status() != 200 && !negotiated {
        return Err(found.response.status());
    }
    if negotiated || is_map(&found) {
        return Err(506);
    }
    if let Some(vary) = found.response.err_headers_out.get("Vary") {
        request.response.err_headers_out.set("Variant-Vary", vary);
        request.response.err_headers_out.set("Vary", vary);
    }
    Ok(())
}
