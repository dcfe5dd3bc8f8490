# Tsubame where the image httpd:2.4 is used: the same paths, the same command, the same stop signal.
# docs/installing.md says how to run it.

FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --package tsubame \
    && install -D --strip target/dist/tsubame /out/tsubame

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="Tsubame" \
      org.opencontainers.image.description="Web server that reads Apache 2.4 configuration" \
      org.opencontainers.image.licenses="Apache-2.0"

# The program itself needs only what every Debian has. The certificates are for applications behind it that speak HTTPS.
# A version of the package would be gone from Debian with its next update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*

ENV HTTPD_PREFIX=/usr/local/apache2
ENV PATH=$HTTPD_PREFIX/bin:$PATH
WORKDIR $HTTPD_PREFIX

# The pid file, the control socket and locks are in logs: it is the only directory that the server writes to.
# Without options the program looks for its configuration in /etc/apache2, so `httpd -t` and `tsubame ctl` need none.
RUN mkdir bin cgi-bin conf conf.d htdocs logs \
    && chown www-data:www-data logs \
    && ln -s /usr/local/bin/tsubame bin/httpd \
    && ln -s "$HTTPD_PREFIX" /etc/apache2
COPY --from=build /out/tsubame /usr/local/bin/
COPY --chmod=755 packaging/image/httpd-foreground /usr/local/bin/
COPY packaging/image/httpd.conf conf/mime.types conf/
COPY packaging/image/index.html htdocs/
COPY LICENSE /usr/share/doc/tsubame/

# www-data, by number: Kubernetes cannot tell of a name that it is not root. Docker lets every user have port 80.
# A capability in the program's file would do that elsewhere too, but the kernel starts no such program where all capabilities
# are dropped, as careful people do.
USER 33:33
EXPOSE 80
STOPSIGNAL SIGWINCH
# The parent answers, whatever ports and hosts the configuration has.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["tsubame", "ctl", "status"]
CMD ["httpd-foreground"]
