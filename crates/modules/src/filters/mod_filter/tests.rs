//! Directives against Apache's messages, chains and their merging.

use super::*;
use crate::testing::{apply, check};

fn known() {
    server::module::set_known(crate::MODULES);
}

#[test]
fn errors_as_apache_has_them() {
    known();
    let three = "FilterProvider takes three arguments, filter-name provider-name match-expression";
    check(&[
        ("AddOutputFilterByType", "AddOutputFilterByType requires at least two arguments"),
        ("AddOutputFilterByType DEFLATE", "AddOutputFilterByType requires at least two arguments"),
        ("AddOutputFilterByType NOSUCH text/html", "Unknown filter provider NOSUCH"),
        ("AddOutputFilterByType A;B text/html", "Unknown filter provider A"),
        ("AddOutputFilterByType '' text/html", ""),
        ("AddOutputFilterByType deflate text/html text/css", ""),
        ("FilterDeclare", "FilterDeclare takes 1-2 arguments, filter-name [filter-type]"),
        ("FilterDeclare a NOSUCH", ""),
        ("FilterProvider a DEFLATE", three),
        ("FilterProvider a DEFLATE true x", three),
        ("FilterProvider a NOSUCH x", "Unknown filter provider NOSUCH"),
        ("FilterDeclare a\nFilterProvider b a true", "Unknown filter provider a"),
        ("FilterProvider a DEFLATE \"%{CONTENT_TYPE} =~ m#text#\"", ""),
        (
            "FilterProvider a DEFLATE \"%{CONTENT_TYPE} =~\"",
            "Error parsing FilterProvider expression:syntax error, unexpected $end, expecting T_REGEX or T_REGEX_I",
        ),
        ("FilterChain", "FilterChain requires at least one argument, list of filter names with optional [+-=!@]"),
        ("FilterChain +a -b @c =d !", ""),
        ("FilterTrace a 1", "Undeclared smart filter a"),
        ("FilterDeclare a\nFilterTrace a x", ""),
        ("FilterProtocol a change=yes", "FilterProtocol: No such filter"),
        ("FilterDeclare a\nFilterProtocol a x change=yes", "FilterProtocol: No such provider for this filter"),
        ("FilterDeclare a\nFilterProtocol a change=foo", ""),
    ]);
}

#[test]
fn chains_add_up_until_they_are_reset() {
    known();
    let names = |lines: &str| {
        let applied = apply(lines).unwrap();
        applied.dir.get::<FilterConf>().chain.clone()
    };
    let cases = [
        ("FilterChain a b", "FilterChain c", "a b c"),
        ("FilterChain a @b", "FilterChain -a", "b a"),
        ("FilterChain a", "FilterChain !", ""),
        ("FilterChain a", "FilterChain =b +c", "b c"),
        ("FilterChain a b A -a", "FilterChain @c", "b c"),
        ("AddOutputFilterByType DEFLATE text/a\nAddOutputFilterByType DEFLATE text/b", "", "BYTYPE:DEFLATE"),
    ];
    for (outer, inner, want) in cases {
        let merged = Names::merge(&names(outer), &names(inner));
        assert_eq!(merged.names.join(" "), want, "{outer} | {inner}");
    }
}

#[test]
fn types_of_one_section_add_up_and_an_inner_section_replaces_them() {
    known();
    let smart = |lines: &str| apply(lines).unwrap().dir.get::<FilterConf>().smart.clone();
    let types = |smart: &Keyed<String, Arc<Smart>>| {
        let providers = &smart.get("BYTYPE:DEFLATE").unwrap().providers;
        let types = providers.iter().map(|one| match &one.when {
            When::Types(types) => types.join(","),
            When::Expr(_) => String::new(),
        });
        types.collect::<Vec<_>>().join(" ")
    };
    let outer = smart("AddOutputFilterByType DEFLATE text/html text/css\nAddOutputFilterByType DEFLATE text/xml");
    assert_eq!(types(&outer), "text/xml text/html,text/css");
    let inner = smart("AddOutputFilterByType DEFLATE text/plain");
    assert_eq!(types(&Keyed::merge(&outer, &inner)), "text/plain");
}
