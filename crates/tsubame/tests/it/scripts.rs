//! Scripts and applications: CGI, FastCGI, SCGI, uwsgi, Perl, PHP and Python.

pub mod admission;
pub mod applications;
pub mod asgi;
pub mod cgi;
pub mod cgi_clients;
pub mod cgi_faults;
pub mod cgi_same_as_apache;
pub mod cgid;
pub mod fastcgi;
pub mod fcgid;
pub mod fcgid_faults;
pub mod fcgid_pools;
pub mod fcgid_same_as_apache;
pub mod one_process;
pub mod perl;
pub mod php;
pub mod prepared;
pub mod proxy_fcgi;
pub mod proxy_others;
pub mod proxy_same_as_apache;
pub mod replaced;
pub mod script_ends;
pub mod script_log_same_as_apache;
pub mod suexec;
pub mod wsgi;
pub mod wsgi_same_as_apache;
