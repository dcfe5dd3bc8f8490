//! The phases in which modules handle a request, in their order (Apache manual, "Request Processing in the Apache HTTP
//! Server 2.x").

/// Declares [`Phase`]: the variant, its name in Apache's mod_info, and its name for people.
macro_rules! phases {
    ($($(#[$doc:meta])* $variant:ident $apache:literal $name:literal,)*) => {
        /// A phase of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Phase {
            $($(#[$doc])* $variant,)*
        }

        impl Phase {
            /// The number of phases.
            pub(crate) const COUNT: usize = [$(Phase::$variant),*].len();

            /// The name in Apache's mod_info.
            pub const fn apache_name(self) -> &'static str {
                match self { $(Phase::$variant => $apache,)* }
            }

            /// The name in explanations.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Phase::$variant => $name,)* }
            }
        }
    };
}

phases! {
    /// The head was read. All hooks run.
    PostRead "Post-Read Request" "request read",
    /// URL to file name. The first that does not decline wins.
    Translate "Translate Name" "URL to file",
    /// The sections that are about files, for a request that maps to no file of this machine. The first that does not
    /// decline has merged the replacement settings.
    MapToStorage "Map to Storage" "sections",
    /// All sections were merged. All hooks run.
    HeaderParser "Header Parse" "header",
    /// Decides access by the origin of the request. All hooks run.
    AccessChecker "Check Access (legacy)" "access by host",
    /// Decides access without a user. The first that does not decline wins.
    AccessCheckerEx "Check Access" "access without a user",
    /// Authenticates the user. The first that does not decline wins.
    CheckUser "Verify User ID" "authentication",
    /// Authorizes that user. The first that does not decline wins.
    AuthChecker "Verify User Access" "authorization",
    /// Type, language, encoding, handler. The first that does not decline wins.
    TypeChecker "Check Type" "type",
    /// Last changes before the handler. All hooks run.
    Fixups "Fixups" "fixups",
}
