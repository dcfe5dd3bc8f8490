//! The configuration: its language, sections, `.htaccess` files, and the tables of directives.

pub mod debian;
pub mod directives_same_as_apache;
pub mod documents;
pub mod few_need_same_as_apache;
pub mod gallery;
pub mod golden;
pub mod htaccess;
pub mod idle_modules;
pub mod language_same_as_apache;
pub mod merging_same_as_apache;
pub mod options;
pub mod refused_same_as_apache;
pub mod sections;
pub mod tables;
pub mod trees;
pub mod values;
