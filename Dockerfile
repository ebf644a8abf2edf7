# The gateway in an image: built with the pinned toolchain, laid out after a training run (deploy/build), run by an ordinary
# user on a slim Debian.
#
#   docker build -t oncegate .
#   docker run -p 8080:8080 -v "$PWD/oncegate.yaml:/etc/oncegate/oncegate.yaml:ro" -v oncegate:/var/lib/oncegate oncegate
#
# The file has to say `listen: 0.0.0.0:8080`: what listens on 127.0.0.1 cannot be reached from outside the container.

FROM rust:1.95-bookworm AS build
# The training run is over Redis too.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src ./src
COPY benches ./benches
COPY deploy/build ./deploy/build
RUN deploy/build

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin oncegate \
    && install -d -o oncegate -g oncegate -m 0750 /var/lib/oncegate /etc/oncegate
# The authorities that vouch for `https://` servers.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /build/target/trained/oncegate /usr/local/bin/oncegate

USER 10001
WORKDIR /var/lib/oncegate
# The embedded store's place: the default path, ./oncegate-data, is in it.
VOLUME /var/lib/oncegate
# 8080 takes requests, 9900 is the operators' door.
EXPOSE 8080 9900

# Alive, not ready: a store that is away must not get the gateway restarted. It asks `admin.listen` on its usual port.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9900 && printf 'GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]

ENTRYPOINT ["oncegate"]
CMD ["serve", "--config", "/etc/oncegate/oncegate.yaml"]
