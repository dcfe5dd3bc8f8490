//! Trees of distributions and panels: each starts as it is, except for its addresses and paths, and passes a request on.
//!
//! The lines are those of the originals; only what belongs to a machine is `ADDR`, `ROOT`, `BACKEND` or `SOCKET` here.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::server::Start;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::{Origin, PORT};

/// A tree: its files below `conf`, a request, and what the server says of its own when it starts.
struct Tree {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Its host and path.
    request: (&'static str, &'static str),
    /// The beginning of what the server behind it is asked for.
    asked: &'static str,
    said: &'static [&'static str],
}

/// RHEL 9: httpd with mod_ssl and everything else that its packages bring.
const RHEL: Tree = Tree {
    name: "RHEL 9",
    files: &[
        (
            "httpd.conf",
            "ServerRoot \"ROOT\"\nListen ADDR:8080\nInclude conf/conf.modules.d/*.conf\nUser www-data\nGroup www-data\nServerAdmin root@localhost\n\
             <Directory />\nAllowOverride none\nRequire all denied\n</Directory>\nDocumentRoot \"ROOT/htdocs\"\n\
             <Directory \"ROOT\">\nAllowOverride None\nRequire all granted\n</Directory>\n\
             <Directory \"ROOT/htdocs\">\nOptions Indexes FollowSymLinks\nAllowOverride None\nRequire all granted\n</Directory>\n\
             <IfModule dir_module>\nDirectoryIndex index.html\n</IfModule>\n<Files \".ht*\">\nRequire all denied\n</Files>\n\
             ErrorLog \"logs/error_log\"\nLogLevel warn\n<IfModule log_config_module>\n\
             LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\n\
             <IfModule logio_module>\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\" %I %O\" combinedio\n</IfModule>\n\
             CustomLog \"logs/access_log\" combined\n</IfModule>\n<IfModule alias_module>\nScriptAlias /cgi-bin/ \"ROOT/cgi-bin/\"\n</IfModule>\n\
             <Directory \"ROOT/cgi-bin\">\nAllowOverride None\nOptions None\nRequire all granted\n</Directory>\n\
             <IfModule mime_module>\nTypesConfig conf/mime.types\nAddType application/x-compress .Z\nAddType application/x-gzip .gz .tgz\n\
             AddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n</IfModule>\nAddDefaultCharset UTF-8\n\
             <IfModule mime_magic_module>\nMIMEMagicFile conf/magic\n</IfModule>\nEnableSendfile on\nIncludeOptional conf/conf.d/*.conf\n",
        ),
        ("magic", "0\tstring\t%PDF-\tapplication/pdf\n"),
        (
            "conf.modules.d/00-base.conf",
            "LOAD access_compat actions alias allowmethods auth_basic auth_digest authn_anon authn_core authn_dbd authn_dbm authn_file \
             authn_socache authz_core authz_dbd authz_dbm authz_groupfile authz_host authz_owner authz_user autoindex brotli cache \
             cache_disk cache_socache data dbd deflate dir dumpio echo env expires ext_filter filter headers include info log_config \
             logio macro mime_magic mime negotiation remoteip reqtimeout request rewrite setenvif slotmem_plain slotmem_shm \
             socache_dbm socache_memcache socache_redis socache_shmcb status substitute suexec unique_id unixd userdir version \
             vhost_alias watchdog\n",
        ),
        ("conf.modules.d/00-dav.conf", "LOAD dav dav_fs dav_lock\n"),
        ("conf.modules.d/00-lua.conf", "LOAD lua\n"),
        ("conf.modules.d/00-mpm.conf", "LOAD mpm_event\n"),
        (
            "conf.modules.d/00-optional.conf",
            "LOAD asis buffer heartbeat heartmonitor usertrack dialup charset_lite log_debug log_forensic ratelimit reflector sed speling\n",
        ),
        (
            "conf.modules.d/00-proxy.conf",
            "LOAD proxy lbmethod_bybusyness lbmethod_byrequests lbmethod_bytraffic lbmethod_heartbeat proxy_ajp proxy_balancer \
             proxy_connect proxy_express proxy_fcgi proxy_fdpass proxy_ftp proxy_http proxy_hcheck proxy_scgi proxy_uwsgi proxy_wstunnel\n",
        ),
        ("conf.modules.d/00-proxyhtml.conf", "LOAD xml2enc proxy_html\n"),
        ("conf.modules.d/00-session.conf", "LOAD session session_cookie session_dbd auth_form\n"),
        ("conf.modules.d/00-ssl.conf", "LOAD ssl\n"),
        ("conf.modules.d/00-systemd.conf", "LOAD systemd\n"),
        (
            "conf.modules.d/01-cgi.conf",
            "<IfModule mpm_worker_module>\nLOAD cgid\n</IfModule>\n<IfModule mpm_event_module>\nLOAD cgid\n</IfModule>\n\
             <IfModule mpm_prefork_module>\nLOAD cgi\n</IfModule>\n",
        ),
        ("conf.modules.d/01-ldap.conf", "LOAD ldap authnz_ldap\n"),
        ("conf.modules.d/01-md.conf", "LOAD md\n"),
        ("conf.modules.d/10-h2.conf", "LOAD http2\n"),
        ("conf.modules.d/10-proxy_h2.conf", "LOAD proxy_http2\n"),
        (
            "conf.d/autoindex.conf",
            "IndexOptions FancyIndexing HTMLTable VersionSort\nAlias /icons/ \"ROOT/icons/\"\n<Directory \"ROOT/icons\">\n\
             Options Indexes MultiViews FollowSymlinks\nAllowOverride None\nRequire all granted\n</Directory>\n\
             AddIconByEncoding (CMP,/icons/compressed.gif) x-compress x-gzip\nAddIconByType (TXT,/icons/text.gif) text/*\n\
             AddIcon /icons/binary.gif .bin .exe\nAddIcon /icons/folder.gif ^^DIRECTORY^^\nAddIcon /icons/blank.gif ^^BLANKICON^^\n\
             DefaultIcon /icons/unknown.gif\nReadmeName README.html\nHeaderName HEADER.html\n\
             IndexIgnore .??* *~ *# HEADER* README* RCS CVS *,v *,t\n",
        ),
        (
            "conf.d/userdir.conf",
            "<IfModule mod_userdir.c>\nUserDir disabled\n</IfModule>\n<Directory \"/home/*/public_html\">\n\
             AllowOverride FileInfo AuthConfig Limit Indexes\nOptions MultiViews Indexes SymLinksIfOwnerMatch IncludesNoExec\n\
             Require method GET POST OPTIONS\n</Directory>\n",
        ),
        (
            "conf.d/welcome.conf",
            "<LocationMatch \"^/+$\">\nOptions -Indexes\nErrorDocument 403 /.noindex.html\n</LocationMatch>\n\
             <Directory ROOT/noindex>\nAllowOverride None\nRequire all granted\n</Directory>\n\
             Alias /.noindex.html ROOT/noindex/index.html\nAlias /poweredby.png ROOT/icons/apache_pb3.png\n",
        ),
        (
            "conf.d/php.conf",
            "<Files \".user.ini\">\nRequire all denied\n</Files>\nAddType text/html .php\nDirectoryIndex index.php\n\
             <IfModule !mod_php5.c>\n<IfModule !mod_php7.c>\n<IfModule !mod_php.c>\nSetEnvIfNoCase ^Authorization$ \"(.+)\" HTTP_AUTHORIZATION=$1\n\
             <FilesMatch \\.(php|phar)$>\nSetHandler \"proxy:unix:SOCKET|fcgi://localhost\"\n</FilesMatch>\n</IfModule>\n</IfModule>\n</IfModule>\n\
             <IfModule mod_php.c>\n<FilesMatch \\.(php|phar)$>\nSetHandler application/x-httpd-php\n</FilesMatch>\nphp_value session.save_handler \"files\"\n</IfModule>\n",
        ),
        (
            "conf.d/ssl.conf",
            "Listen ADDR:8443 https\nSSLPassPhraseDialog exec:ROOT/pass-dialog\nSSLSessionCache shmcb:ROOT/run/sslcache(512000)\n\
             SSLSessionCacheTimeout 300\nSSLCryptoDevice builtin\n<VirtualHost _default_:8443>\nErrorLog logs/ssl_error_log\n\
             TransferLog logs/ssl_access_log\nLogLevel warn\nSSLEngine on\nSSLHonorCipherOrder on\nSSLCipherSuite PROFILE=SYSTEM\n\
             SSLProxyCipherSuite PROFILE=SYSTEM\nSSLCertificateFile ROOT/cert.pem\nSSLCertificateKeyFile ROOT/key.pem\n\
             <FilesMatch \"\\.(cgi|shtml|phtml|php)$\">\nSSLOptions +StdEnvVars\n</FilesMatch>\n<Directory \"ROOT/cgi-bin\">\n\
             SSLOptions +StdEnvVars\n</Directory>\nBrowserMatch \"MSIE [2-5]\" \\\n nokeepalive ssl-unclean-shutdown \\\n \
             downgrade-1.0 force-response-1.0\nCustomLog logs/ssl_request_log \\\n \
             \"%t %h %{SSL_PROTOCOL}x %{SSL_CIPHER}x \\\"%r\\\" %b\"\n</VirtualHost>\n",
        ),
        // The one file that an administrator has added.
        (
            "conf.d/zz-app.conf",
            "ServerName localhost\nPidFile logs/pid\n<VirtualHost *:8080>\nServerName app.example\nProxyPreserveHost On\n\
             ProxyPass \"/.well-known\" \"!\"\nProxyPass \"/\" \"BACKEND/inner/\"\nProxyPassReverse \"/\" \"BACKEND/inner/\"\n</VirtualHost>\n",
        ),
    ],
    request: ("app.example", "/echo"),
    asked: "GET /inner/echo HTTP/1.1",
    said: &["Tsubame does not have "],
};

/// HestiaCP: its main file, and a domain of each template that needs no PHP in the server.
const HESTIA: Tree = Tree {
    name: "HestiaCP",
    files: &[
        (
            "httpd.conf",
            "PidFile logs/pid\nTimeout 30\nKeepAlive Off\nMaxKeepAliveRequests 100\nKeepAliveTimeout 10\n\
             <IfModule mpm_prefork_module>\nStartServers 8\nMinSpareServers 5\nMaxSpareServers 20\nServerLimit 256\nMaxClients 200\nMaxRequestsPerChild 4000\n</IfModule>\n\
             <IfModule mpm_event_module>\nStartServers 2\nMinSpareThreads 25\nMaxSpareThreads 75\nThreadLimit 64\nThreadsPerChild 25\nMaxClients 200\nMaxRequestsPerChild 4000\n</IfModule>\n\
             User www-data\nGroup www-data\nAccessFileName .htaccess\nErrorLog logs/error_log\nLogLevel warn\nHostnameLookups Off\n\
             Include conf/mods-enabled/*.load\nInclude conf/mods-enabled/*.conf\n\
             <Files ~ \"^\\.ht\">\nOrder allow,deny\nDeny from all\nSatisfy all\n</Files>\nDefaultType None\nInclude conf/ports.conf\n\
             LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\nLogFormat \"%{Referer}i -> %U\" referer\nLogFormat \"%b\" bytes\n\
             IncludeOptional conf/conf.d/*.conf\nIncludeOptional conf/conf.d/domains/*.conf\n\
             ErrorDocument 403 /error/403.html\nErrorDocument 404 /error/404.html\nErrorDocument 500 /error/50x.html\nErrorDocument 506 /error/50x.html\n",
        ),
        ("ports.conf", "Listen ADDR:8080\nListen ADDR:8443\nServerName localhost\n"),
        (
            "mods-enabled/all.load",
            "LOAD access_compat actions alias auth_basic authn_core authn_file authz_core authz_host authz_user autoindex cgid deflate dir env \
             expires filter headers include log_config logio mime mpm_event negotiation proxy proxy_fcgi proxy_http remoteip rewrite setenvif \
             socache_shmcb ssl status suexec unixd version\n",
        ),
        (
            "mods-enabled/hestia-status.conf",
            "Listen ADDR:8081\n<VirtualHost ADDR:8081>\nServerName localhost\nDocumentRoot ROOT/htdocs\n<Location \"/server-status\">\n\
             SetHandler server-status\nRequire ip 127.0.0.0/8\n</Location>\n</VirtualHost>\nExtendedStatus On\n",
        ),
        (
            "conf.d/unassigned.conf",
            "<VirtualHost ADDR:8080>\nServerName ADDR\nDocumentRoot ROOT/htdocs\nAlias /error/ ROOT/error/\n<Directory ROOT/htdocs>\nAllowOverride All\n\
             Options +Includes -Indexes +ExecCGI\n</Directory>\n</VirtualHost>\n",
        ),
        (
            "conf.d/domains/fpm.conf",
            "<VirtualHost ADDR:8443>\nServerName fpm.example\nServerAlias www.fpm.example\nServerAdmin info@fpm.example\nDocumentRoot ROOT/htdocs\n\
             ScriptAlias /cgi-bin/ ROOT/cgi-bin/\nAlias /vstats/ ROOT/stats/\nAlias /error/ ROOT/error/\n\
             CustomLog logs/fpm.bytes bytes\nCustomLog logs/fpm.log combined\nErrorLog logs/fpm.error.log\n\
             <Directory ROOT/stats>\nAllowOverride All\n</Directory>\n<Directory ROOT/htdocs>\nAllowOverride All\nSSLRequireSSL\nOptions +Includes -Indexes +ExecCGI\n</Directory>\n\
             SSLEngine on\nSSLVerifyClient none\nSSLCertificateFile ROOT/cert.pem\nSSLCertificateKeyFile ROOT/key.pem\n\
             <FilesMatch \\.php$>\nSetHandler \"proxy:unix:SOCKET|fcgi://localhost\"\n</FilesMatch>\nSetEnvIf Authorization .+ HTTP_AUTHORIZATION=$0\n\
             <IfModule mod_ruid2.c>\nRMode config\nRUidGid u g\nRGroups www-data\n</IfModule>\n<IfModule mpm_itk.c>\nAssignUserID u g\n</IfModule>\n\
             <IfModule mod_remoteip.c>\nRemoteIPHeader X-Real-IP\nRemoteIPInternalProxy 127.0.0.1\nRemoteIPInternalProxy ADDR\n</IfModule>\n\
             IncludeOptional ROOT/conf/web/apache2.ssl.conf_*\nIncludeOptional ROOT/conf/conf.d/*.inc\n</VirtualHost>\n",
        ),
        // Its proxy template, with addresses without a slash at their end.
        (
            "conf.d/domains/proxy.conf",
            "<VirtualHost ADDR:8080>\nServerName proxy.example\nDocumentRoot ROOT/htdocs\nCustomLog logs/proxy.bytes bytes\n\
             SetEnvIf Authorization .+ HTTP_AUTHORIZATION=$0\nProxyPass / BACKEND\nProxyPassReverse / BACKEND\n\
             ProxyPass /admin BACKEND/admin\nProxyPassReverse /admin BACKEND/admin\nProxyPass /static BACKEND/static\n</VirtualHost>\n",
        ),
    ],
    request: ("proxy.example", "/"),
    asked: "GET / HTTP/1.1",
    said: &[],
};

/// ISPConfig: its general options, and a site that is redirected to another server by proxy.
const ISPCONFIG: Tree = Tree {
    name: "ISPConfig",
    files: &[
        (
            "httpd.conf",
            "LOAD access_compat actions alias auth_basic authn_core authn_file authz_core authz_host authz_user autoindex cgi dav dav_fs dir env \
             fcgid headers include log_config logio mime mpm_prefork negotiation proxy proxy_fcgi proxy_http remoteip rewrite setenvif socache_shmcb ssl \
             status suexec unixd version\nListen ADDR:8080\nListen ADDR:8443\nServerName localhost\nUser www-data\nGroup www-data\nPidFile logs/pid\nErrorLog logs/error_log\n\
             LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O\" combined\nTypesConfig conf/mime.types\nIncludeOptional conf/sites-enabled/\n",
        ),
        (
            "sites-enabled/000-ispconfig.conf",
            "ServerTokens ProductOnly\nServerSignature Off\nLogFormat \"%v %h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined_ispconfig\n\
             CustomLog \"| ROOT/cgi-bin/vlogger -s access.log -t \\\"%Y%m%d-access.log\\\" ROOT/logs\" combined_ispconfig\n<Directory ROOT/clients>\nAllowOverride None\nRequire all denied\n</Directory>\n\
             <Directory />\nOptions -Indexes\nAllowOverride None\nRequire all denied\n</Directory>\n<Directory /usr/share/phpmyadmin>\nRequire all granted\n</Directory>\n\
             Alias /.well-known/acme-challenge ROOT/acme/.well-known/acme-challenge\n<Directory ROOT/acme/.well-known/acme-challenge>\nRequire all granted\n</Directory>\n",
        ),
        (
            "sites-enabled/100-site.vhost",
            "<Directory ROOT/site>\nAllowOverride None\nRequire all denied\n</Directory>\n<VirtualHost *:8080>\n<IfModule mod_remoteip.c>\n\
             RemoteIPProxyProtocol Off\n</IfModule>\nDocumentRoot ROOT/htdocs\nServerName site.example\nServerAlias www.site.example\nServerAdmin webmaster@site.example\n\
             ErrorLog logs/error_log\nAlias /error/ \"ROOT/error/\"\nErrorDocument 400 /error/400.html\nErrorDocument 503 /error/503.html\n<IfModule mod_ssl.c>\n</IfModule>\n\
             <Directory ROOT/htdocs>\n<FilesMatch \".+\\.ph(p[345]?|t|tml)$\">\nSetHandler None\n</FilesMatch>\nOptions +SymlinksIfOwnerMatch\n\
             AllowOverride All\nRequire all granted\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\nOptions +Includes\n</Directory>\n\
             <IfModule mod_ruby.c>\nRubyRequire apache/ruby-run\n</IfModule>\n<IfModule mod_python.c>\nPythonDebug On\n</IfModule>\n\
             <IfModule mod_suphp.c>\nsuPHP_Engine on\n</IfModule>\n<IfModule mod_suexec.c>\nSuexecUserGroup www-data www-data\n</IfModule>\n\
             <IfModule mod_fcgid.c>\nFcgidIdleTimeout 300\nFcgidProcessLifeTime 3600\nFcgidMaxRequestsPerProcess 5000\nFcgidMinProcessesPerClass 0\nFcgidMaxProcessesPerClass 10\n\
             FcgidConnectTimeout 3\nFcgidIOTimeout 600\nFcgidBusyTimeout 3600\nFcgidMaxRequestLen 1073741824\n</IfModule>\n\
             <Directory ROOT/htdocs>\n<FilesMatch \"\\.php[345]?$\">\nSetHandler fcgid-script\n</FilesMatch>\nFCGIWrapper ROOT/cgi-bin/starter .php\nOptions +ExecCGI\n</Directory>\n\
             <IfModule mod_fastcgi.c>\nFastCgiExternalServer ROOT/cgi-bin/php-fcgi -idle-timeout 300 -socket SOCKET -pass-header Authorization\n</IfModule>\n\
             <IfModule mod_proxy_fcgi.c>\n<IfVersion >= 2.4.26>\nProxyFCGISetEnvIf \"true\" DOCUMENT_ROOT \"/web\"\n\
             ProxyFCGISetEnvIf \"true\" SCRIPT_FILENAME \"%{reqenv:DOCUMENT_ROOT}%{reqenv:SCRIPT_NAME}\"\n</IfVersion>\n<Directory ROOT/web>\n\
             <FilesMatch \"\\.php[345]?$\">\n<If \"-f '%{REQUEST_FILENAME}'\">\nSetHandler \"proxy:unix:SOCKET|fcgi://localhost\"\n</If>\n</FilesMatch>\n</Directory>\n</IfModule>\n\
             RewriteEngine on\nRewriteCond %{REQUEST_URI} ^/\\.well-known/acme-challenge/\nRewriteRule ^ - [END]\nRewriteCond %{HTTP_HOST} site.example$ [NC]\n\
             RewriteCond %{REQUEST_URI} !^/webdav/\nRewriteCond %{REQUEST_URI} !^/php-fcgi/\nRewriteRule ^/(.*)$ BACKEND/$1 [P]\n\
             <IfModule mpm_itk_module>\nAssignUserId u g\n</IfModule>\n<IfModule mod_dav_fs.c>\n<Directory ROOT/webdav>\n<ifModule mod_security2.c>\nSecRuleRemoveById 960015\n</ifModule>\n\
             <FilesMatch \"\\.ph(p3?|tml)$\">\nSetHandler None\n</FilesMatch>\n</Directory>\nDavLockDB ROOT/run/DavLock\n</IfModule>\n</VirtualHost>\n",
        ),
        (
            "sites-enabled/101-secure.vhost",
            "<VirtualHost *:8443>\nServerName secure.example\nDocumentRoot ROOT/htdocs\nProtocols h2 http/1.1\nSSLProtocol All -SSLv2 -SSLv3 -TLSv1 -TLSv1.1\n\
             SSLCipherSuite 'EECDH+ECDSA+AESGCM EECDH+aRSA+AESGCM EECDH EDH+aRSA !RC4 !aNULL !eNULL !LOW !3DES !MD5 !EXP !PSK !SRP !DSS'\n<IfModule mod_ssl.c>\n\
             SSLEngine on\nSSLHonorCipherOrder on\nSSLCertificateFile ROOT/cert.pem\nSSLCertificateKeyFile ROOT/key.pem\nSSLUseStapling on\nSSLStaplingResponderTimeout 5\n\
             SSLStaplingReturnResponderErrors off\n</IfModule>\n</VirtualHost>\n<IfModule mod_ssl.c>\nSSLStaplingCache shmcb:ROOT/run/ocsp(128000)\n</IfModule>\n",
        ),
    ],
    request: ("site.example", "/echo"),
    asked: "GET /echo HTTP/1.1",
    said: &["AH01906: ", "AH01909: ", "AH02217: ", "AH01232: "],
};

/// cPanel: names of services on each site's host are passed on to them.
const CPANEL: Tree = Tree {
    name: "cPanel",
    files: &[
        (
            "httpd.conf",
            "LOAD access_compat actions alias auth_basic authn_core authn_file authz_core authz_host authz_user autoindex cgid deflate dir env expires filter \
             headers include log_config logio mime mpm_event negotiation proxy proxy_fcgi proxy_http proxy_wstunnel rewrite setenvif slotmem_shm socache_dbm \
             socache_shmcb ssl status suexec unique_id unixd userdir version systemd\nInclude \"conf/includes/*.conf\"\nServerName localhost\nPidFile logs/pid\n\
             User www-data\nGroup www-data\nErrorLog logs/error_log\nExtendedStatus On\nServerAdmin root@localhost\nListen ADDR:8080\nTraceEnable Off\nFileETag None\n\
             LogLevel warn\nStartServers 5\n<IfModule event.c>\nMaxRequestWorkers 150\n</IfModule>\nKeepAlive On\nKeepAliveTimeout 5\nMaxKeepAliveRequests 100\nTimeout 300\n\
             <Directory \"/\">\nAllowOverride All\nOptions ExecCGI FollowSymLinks IncludesNOEXEC Indexes\n</Directory>\n\
             <IfModule rewrite_module>\nRewriteEngine on\nRewriteMap LeechProtect prg:/bin/cat\nMutex file:ROOT/run rewrite-map\n</IfModule>\n\
             <IfModule userdir_module>\nUserDir public_html\nUserDir disabled\n</IfModule>\n<IfModule alias_module>\nScriptAliasMatch ^/?controlpanel/?$ ROOT/cgi-bin/redirect.cgi\n\
             ScriptAlias /cgi-sys ROOT/cgi-bin/\n</IfModule>\n<IfModule proxy_module>\nProxyTimeout 300\n</IfModule>\n<Files ~ \"^error_log$\">\nOrder allow,deny\nDeny from all\n</Files>\n\
             <VirtualHost ADDR:8080>\nServerName www.example\nServerAlias site.example cpanel.site.example\nDocumentRoot ROOT/htdocs\nUseCanonicalName Off\nUserDir disabled\n\
             <IfModule suphp_module>\nsuPHP_UserGroup u g\n</IfModule>\n<IfModule suexec_module>\n<IfModule !mod_ruid2.c>\nSuexecUserGroup www-data www-data\n</IfModule>\n</IfModule>\n\
             <IfModule ruid2_module>\nRMode config\nRUidGid u g\n</IfModule>\n<IfModule mpm_itk.c>\nAssignUserID u g\n</IfModule>\n<IfModule mod_passenger.c>\nPassengerUser u\n</IfModule>\n\
             <IfModule security2_module>\nSecRuleEngine Off\n</IfModule>\n<IfModule rewrite_module>\nRewriteEngine On\nRewriteCond %{HTTP_HOST} =cpanel.site.example [OR]\n\
             RewriteCond %{HTTP_HOST} =cpanel.site.example:80\nRewriteCond %{HTTP:Upgrade} !websocket [nocase]\nRewriteRule ^/(.*) /___proxy_subdomain_cpanel/$1 [PT]\n\
             ProxyPass \"/___proxy_subdomain_cpanel\" \"BACKEND\" max=1 retry=0\nRewriteCond %{HTTP_HOST} =cpanel.site.example\nRewriteCond %{HTTP:Upgrade} websocket [nocase]\n\
             RewriteRule ^/(.*) /___proxy_subdomain_ws_cpanel/$1 [PT]\nProxyPass \"/___proxy_subdomain_ws_cpanel\" \"ws://ADDR:9108\" max=1 retry=0\n</IfModule>\n</VirtualHost>\n",
        ),
        ("includes/pre_main_global.conf", "\n"),
    ],
    request: ("cpanel.site.example", "/echo"),
    asked: "GET /echo HTTP/1.1",
    said: &["AH01232: "],
};

/// Virtualmin: a virtual server with PHP beside it, and a path that goes to another server.
const VIRTUALMIN: Tree = Tree {
    name: "Virtualmin",
    files: &[(
        "httpd.conf",
        "LOAD actions alias authz_core authz_host autoindex cgid dir env fcgid include log_config mime mpm_event negotiation proxy proxy_balancer lbmethod_byrequests \
         slotmem_shm proxy_fcgi proxy_http rewrite setenvif suexec unixd\nListen ADDR:8080\nServerName localhost\nUser www-data\nGroup www-data\nPidFile logs/pid\n\
         ErrorLog logs/error_log\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" combined\n<VirtualHost ADDR:8080>\nSuexecUserGroup #33 #33\nServerName virtual.example\nServerAlias mail.virtual.example\n\
         DocumentRoot ROOT/htdocs\nErrorLog logs/error_log\nCustomLog logs/virtual_access_log combined\nScriptAlias /cgi-bin/ ROOT/cgi-bin/\nDirectoryIndex index.php index.htm index.html\n\
         <Directory ROOT/htdocs>\nOptions -Indexes +IncludesNOEXEC +SymLinksIfOwnerMatch +ExecCGI\nRequire all granted\n\
         AllowOverride All Options=ExecCGI,Includes,IncludesNOEXEC,Indexes,MultiViews,SymLinksIfOwnerMatch\nAddType application/x-httpd-php .php\nAddHandler fcgid-script .php\n\
         FCGIWrapper ROOT/cgi-bin/php8.fcgi .php\n</Directory>\n<Directory ROOT/cgi-bin>\nRequire all granted\nAllowOverride All\n</Directory>\nRewriteEngine on\n\
         RewriteCond %{HTTP_HOST} =webmail.virtual.example\nRewriteRule ^/(?!.well-known)(.*)$ https://virtual.example:20000/ [R]\nRemoveHandler .php\nFcgidMaxRequestLen 1073741824\n\
         IPCCommTimeout 31\n<FilesMatch \\.php$>\nSetHandler proxy:unix:SOCKET|fcgi://127.0.0.1\n</FilesMatch>\nProxyPass /.well-known !\nProxyPass /app/ balancer://app/\nProxyPassReverse /app/ balancer://app/\n\
         <Proxy balancer://app>\nBalancerMember BACKEND\n</Proxy>\n</VirtualHost>\n",
    )],
    request: ("virtual.example", "/app/echo"),
    asked: "GET /echo HTTP/1.1",
    // PHP beside the server handles the files, but the type alone would not.
    said: &["AH01232: ", "nothing handles application/x-httpd-php, which needs mod_php"],
};

const TREES: [Tree; 5] = [RHEL, HESTIA, ISPCONFIG, CPANEL, VIRTUALMIN];

/// Writes a tree; `LOAD name …` stands for `LoadModule` lines.
fn plant(site: &Site, tree: &Tree) {
    for name in [
        "icons",
        "noindex",
        "stats",
        "error",
        "site",
        "clients",
        "web",
        "webdav",
        "acme/.well-known/acme-challenge",
        "conf/web",
    ] {
        std::fs::create_dir_all(site.root.join(name)).expect("directory");
    }
    let dialog = site.file("pass-dialog", "#!/bin/sh\n");
    std::fs::set_permissions(dialog, std::fs::Permissions::from_mode(0o755)).expect("mode");
    site.script("vlogger", "#!/bin/sh\nexec cat > /dev/null\n");
    site.script("starter", "#!/bin/sh\n");
    site.script("php8.fcgi", "#!/bin/sh\n");
    let load = |line: &str| match line.strip_prefix("LOAD ") {
        Some(names) => names
            .split_whitespace()
            .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
            .collect::<String>(),
        None => format!("{line}\n"),
    };
    for (name, text) in tree.files {
        let socket = format!("{}/run/fpm.sock", site.path());
        let text: String = text.lines().map(load).collect();
        let text = text
            .replace("SOCKET", &socket)
            .replace("ROOT", site.path())
            .replace("BACKEND", &format!("http://ADDR:{PORT}"));
        site.file(format!("conf/{name}"), text.replace("ADDR", &site.ip.to_string()));
    }
}

fn make_certificate(site: &Site) {
    let root = site.path();
    let make = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 3 -keyout {root}/key.pem -out {root}/cert.pem 2>&1"
    );
    assert!(Command::new("/bin/sh").args(["-c", &make]).output().expect("openssl").status.success());
}

#[test]
fn trees_start_and_pass_requests_on() {
    if !needs::OPENSSL.is_there(test_name!()) || !needs::ROOT.is_there(test_name!()) {
        return;
    }
    for tree in TREES {
        let site = Site::new();
        plant(&site, &tree);
        make_certificate(&site);
        let command = |argument: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
            let output = command.args([argument, "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
            let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
            (output.status.success(), said)
        };
        let (is_good, said) = command("-t");
        assert!(is_good && said.contains("Syntax OK"), "{}: {said}", tree.name);
        let origin = Origin::start(site.ip);
        let server = Start::new(&site, Mpm::Event).run();
        tree.said.iter().for_each(|part| server.allow(*part));
        let (host, path) = tree.request;
        let response = Client::connect(server.address())
            .request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(response.status, 200, "{}: {response:?}", tree.name);
        let text = response.text();
        assert!(text.starts_with(tree.asked), "{}: {text}", tree.name);
        drop(origin);
    }
}

/// What trees of panels ask for that Tsubame does not have is refused with the reason.
const REFUSED: [(&str, &str); 4] = [
    ("LoadModule mpm_itk_module modules/mod_mpm_itk.so", "Tsubame has no module mpm_itk_module"),
    ("LoadModule ruid2_module modules/mod_ruid2.so", "Tsubame has no module ruid2_module"),
    ("php_admin_value open_basedir /home", "Invalid command 'php_admin_value'"),
    ("<IfModule !mod_passenger.c>\nPassengerUser u\n</IfModule>", "Invalid command 'PassengerUser'"),
];

#[test]
fn what_is_missing_is_named() {
    for (line, want) in REFUSED {
        let site = Site::new();
        plant(&site, &HESTIA);
        make_certificate(&site);
        site.file("conf/mods-enabled/zz.conf", format!("{line}\n"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.args(["-t", "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(!output.status.success() && said.contains(want), "{line}: {said}");
    }
}
