# The lock service. Build:  docker build -t holdfast .
# Run:    docker run -p 8080:8080 -v locks:/var/lib/holdfast -e HOLDFAST_TOKENS=/run/tokens -v ./tokens:/run/tokens:ro holdfast
FROM debian:12-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc cmake ninja-build make pkg-config libc6-dev \
    libcurl4-gnutls-dev libgnutls28-dev nettle-dev libsqlite3-dev python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make install PREFIX=/usr DESTDIR=/out

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libcurl3-gnutls libgnutls30 libnettle8 libsqlite3-0 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --home-dir /var/lib/holdfast --create-home holdfast
COPY --from=build /out/usr/bin/holdfast /usr/bin/holdfast
COPY --from=build /out/usr/libexec/holdfast/holdfast-serve /usr/libexec/holdfast/holdfast-serve
USER holdfast
VOLUME /var/lib/holdfast
EXPOSE 8080
# This check uses plain HTTP on the default port; with TLS, use --metrics-listen and your own check.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3; grep -q ' 200 ' <&3"]
ENV HOLDFAST_STORE=file:/var/lib/holdfast/locks.db HOLDFAST_LISTEN=0.0.0.0:8080
ENTRYPOINT ["/usr/bin/holdfast"]
CMD ["serve"]
