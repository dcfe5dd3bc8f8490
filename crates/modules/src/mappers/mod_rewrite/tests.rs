//! The lines, as Apache takes them.

use crate::testing::{apply, check};

#[test]
fn lines_as_apache_takes_them() {
    check(&[
        ("RewriteRule ^a", "RewriteRule: bad argument line '^a'"),
        ("RewriteRule", "RewriteRule: bad argument line ''"),
        ("RewriteRule \"\"", ""),
        ("RewriteRule \"^a b", "RewriteRule: bad argument line '\"^a b'"),
        ("RewriteRule ^a b c", "RewriteRule: bad flag delimiters"),
        ("RewriteRule ^a b [R=301, L]", "RewriteRule: bad flag delimiters"),
        ("RewriteRule ^a b R]", "RewriteRule: bad flag delimiters"),
        ("RewriteRule ^a b []", "RewriteRule: unknown flag ''"),
        ("RewriteRule ^a b [,]", "RewriteRule: unknown flag ''"),
        ("RewriteRule ^a b [Dfoo]", ""),
        ("RewriteRule ^a b [BNE]", "RewriteRule: flag 'BNE' wants a list of characters (i.e. [BNE=...])"),
        ("RewriteRule ^a b [BNE=a,BCTLS,BNP,backrefescaping,backrefernoplus]", ""),
        ("RewriteRule ^a b [backrefnoplus]", "RewriteRule: unknown flag 'backrefnoplus'"),
        ("RewriteRule ^a b [R=999]", "RewriteRule: invalid HTTP response code '999' for flag 'R'"),
        ("RewriteRule ^a b [R=200]\nRewriteRule ^a b [R=foo]\nRewriteRule ^a b [R=100]", ""),
        ("RewriteRule ^a b [xyz]", "RewriteRule: unknown flag 'xyz'"),
        ("RewriteRule ^a b [foo=1]", "RewriteRule: unknown flag 'foo'"),
        ("RewriteRule ^a b [UnsafeAllow3F,UnsafePrefixStat,UNC]", ""),
        ("RewriteRule ( b", "RewriteRule: cannot compile regular expression '('"),
        ("RewriteRule !( b", "RewriteRule: cannot compile regular expression '('"),
        ("RewriteRule \"^a b\" \"c d\" \"[E=x:a b]\"\nRewriteRule '^a' 'b'\nRewriteRule ^a\\ b c", ""),
        (
            "RewriteRule ^a b [F,G,chain,cookie=a,discardpath,env=a,END,forbidden,gone,handler=x,last,next,nocase,noescape,\
             nosubreq,proxy,passthrough,qsappend,qsdiscard,qslast,redirect,skip=1,type=x,C,CO=a,DPI,L,N,NC,NE,NS,PT,QSA,QSD,QSL]",
            "",
        ),
        ("RewriteCond %{X}", "RewriteCond: bad argument line '%{X}'"),
        ("RewriteCond %{X} ( [NC]", "RewriteCond: cannot compile regular expression '('"),
        ("RewriteCond %{X} a [XX]", "RewriteCond: unknown flag 'XX'"),
        ("RewriteCond %{X} a b", "RewriteCond: bad flag delimiters"),
        (
            "RewriteCond expr \"foo ==\"",
            "RewriteCond: cannot compile expression \"foo ==\" syntax error, unexpected T_OP_STR_EQ, expecting '('",
        ),
        ("RewriteOptions foo", "RewriteOptions: unknown option 'foo'"),
        ("RewriteOptions \"a b\"", "RewriteOptions: unknown option 'a'"),
        ("RewriteOptions", "RewriteOptions requires at least one argument, List of option strings to set"),
        ("RewriteOptions Inherit inheritbefore InheritDown InheritDownBefore IgnoreInherit AllowNoSlash", ""),
        ("RewriteOptions AllowAnyURI MergeBase IgnoreContextInfo LegacyPrefixDocRoot UnsafePrefixStat", ""),
        ("RewriteBase /x", "RewriteBase: only valid in per-directory config files"),
        ("<Directory /x>\nRewriteBase x\n</Directory>", "RewriteBase: argument is not a valid URL"),
        ("RewriteMap a txt:/none", "RewriteMap: file for map a not found:/none"),
        ("RewriteMap a rnd:/none", "RewriteMap: file for map a not found:/none"),
        ("RewriteMap a none", "RewriteMap: file for map a not found:/root/none"),
        ("RewriteMap a int:foo", "RewriteMap: internal map not found:foo"),
        ("RewriteMap a int:TOLOWER", "RewriteMap: internal map not found:TOLOWER"),
        ("RewriteMap a dbd:x\nRewriteMap b fastdbd:", ""),
        ("RewriteMap a dbm=x:/none", "RewriteMap: dbm type x is invalid"),
        ("RewriteMap a dbm=:/none", "RewriteMap: dbm type  is invalid"),
        ("RewriteMap a dbm=ndbm:/none", "RewriteMap: dbm type ndbm is invalid"),
        ("RewriteMap a dbm=sdbm", "RewriteMap: bad map:dbm=sdbm"),
        ("RewriteMap a dbmfile", "RewriteMap: bad map:dbmfile"),
        ("RewriteMap a dbmx:/none", "RewriteMap: bad map:dbmx:/none"),
        ("RewriteMap a dbm=sdbm:/none", "RewriteMap: file for map a not found:/none.dir"),
        ("RewriteMap a Dbm:none", "RewriteMap: file for map a not found:/root/none"),
        ("RewriteMap a", "RewriteMap takes two or three arguments, a mapname and a filename and options"),
        ("RewriteEngine maybe", "RewriteEngine must be On or Off"),
    ]);
}

#[test]
fn warnings_of_lines() {
    let lines =
        "RewriteCond %{X} -f [NC]\nRewriteCond %{X} -lt3 [NC]\nRewriteCond %{X} =a [NC]\nRewriteOptions MaxRedirects=3";
    let said: Vec<String> = apply(lines).expect("lines").notices.into_iter().map(|notice| notice.text).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].starts_with("AH00665: RewriteCond: NoCase option for non-regex pattern '-f' is not supported"),
        "{said:?}"
    );
    assert!(said[1].contains("pattern '3'"), "{said:?}");
    assert!(said[2].starts_with("AH00664: "), "{said:?}");
}
