# Images of Vedette, for amd64 and arm64:
#
#   docker build --target agent   -t vedette-agent .          every type of check
#   docker build --target uptime  -t vedette-agent-uptime .   URL, TCP, DNS, ICMP, and API without scripts
#   docker build --target service -t vedette-service .        what the agents talk to
#   docker build --target sbom    --output sbom .             what is in them (CycloneDX, and Debian's packages)
#
# BuildKit builds them: Docker uses it by itself from 23 on, before that with DOCKER_BUILDKIT=1. The base
# gives Debian, and npm where it has it; Node.js is the one of package-lock.json. So any Debian from 12 on
# will do, also one that was made without a registry of images.
#
# A proxy that opens TLS: --secret id=ca,src=corporate.pem gives its authority to the build and leaves it in
# no layer. HTTP_PROXY, HTTPS_PROXY and NO_PROXY are build arguments that Docker knows. A registry with a
# login: --secret id=npmrc,src=$HOME/.npmrc.
ARG BASE_IMAGE=node:26-trixie-slim

# ---- Debian that trusts the build's authority ----------------------------------------------------------
FROM ${BASE_IMAGE} AS debian
USER root
ENV DEBIAN_FRONTEND=noninteractive
RUN printf '%s\n' '#!/bin/sh' \
      'if [ -r /run/secrets/ca ]; then' \
      '  echo "Acquire::https::CaInfo \"/run/secrets/ca\";" >/tmp/apt-ca.conf' \
      '  export APT_CONFIG=/tmp/apt-ca.conf NODE_EXTRA_CA_CERTS=/run/secrets/ca' \
      'fi' \
      'exec "$@"' >/usr/local/sbin/with-ca \
    && chmod 755 /usr/local/sbin/with-ca
RUN --mount=type=secret,id=ca \
    with-ca apt-get update -q \
    && with-ca apt-get install -q -y --no-install-recommends ca-certificates libatomic1 tini

# ---- Packages of ours, Node.js and npm -----------------------------------------------------------------
FROM debian AS packages
RUN --mount=type=secret,id=ca \
    with-ca apt-get install -q -y --no-install-recommends \
      binutils $(command -v npm >/dev/null || echo npm)
ARG NPM_CONFIG_REGISTRY
WORKDIR /opt/vedette
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=secret,id=ca --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=cache,target=/root/.npm \
    with-ca npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
# A fifth of Node.js are symbols for debuggers; those that native packages link to stay.
RUN install -D node_modules/node-linux-*/bin/node /out/node/bin/node \
    && install -D -m 644 node_modules/node-linux-*/LICENSE /out/node/share/doc/node/copyright \
    && strip /out/node/bin/node
# It runs on our Node.js, whatever the one is that installs it.
ARG NPM_VERSION=11.19.1
RUN --mount=type=secret,id=ca --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=cache,target=/root/.npm \
    with-ca npm install --global --prefix /out/npm --ignore-scripts --no-audit --no-fund --loglevel=error \
      --force "npm@$NPM_VERSION"
ENV PATH=/out/node/bin:/out/npm/bin:$PATH
# Removes from a folder of packages what only editors and debuggers read.
RUN printf '%s\n' '#!/bin/sh' \
      'find "$1" -type f \( -name "*.map" -o -name "*.d.ts" -o -name "*.d.mts" -o -name "*.d.cts" \)' \
      '  ! -path "*/typescript/lib/*" -delete' \
      'for node in "$1"/node-linux-*; do rm -rf "$node/include" "$node/share" "$node/CHANGELOG.md"; done' \
      | sed 's/)$/) \\/' >/usr/local/sbin/slim \
    && chmod 755 /usr/local/sbin/slim

FROM packages AS service-packages
RUN npm pkg delete devDependencies && npm sbom --omit=dev --sbom-format=cyclonedx >/out/npm.cdx.json \
    && slim node_modules && rm -rf node_modules/node-linux-* node_modules/.bin

# An agent needs nothing of what keeps the data of the service.
FROM packages AS agent-packages
RUN --mount=type=secret,id=ca --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=cache,target=/root/.npm \
    with-ca npm uninstall --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error \
      @electric-sql/pglite aws4fetch fastify kysely pg undici \
    && npm pkg delete devDependencies && npm sbom --omit=dev --sbom-format=cyclonedx >/out/npm.cdx.json \
    && slim node_modules && rm -rf node_modules/node-linux-* node_modules/.bin

FROM packages AS build
RUN --mount=type=secret,id=ca --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=cache,target=/root/.npm \
    with-ca npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
COPY tsconfig.json ./
COPY src src
# Not through env, which an image without a shell lacks.
RUN npm run build \
    && sed -i '1s|.*|#!/usr/local/bin/node|' dist/cli/main.js && chmod 755 dist/cli/main.js \
    && find dist -name '*.map' -delete

# ---- A system of only the C libraries, for images that run nothing but Node.js -------------------------
FROM debian AS small-system
WORKDIR /out/root
RUN mkdir -p usr/bin usr/lib usr/lib64 usr/sbin var/lib/dpkg/status.d \
    && for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$folder"; done
RUN --mount=type=secret,id=ca \
    cd /tmp && with-ca apt-get download -q base-files libatomic1 libc6 libgcc-s1 libstdc++6 netbase tini \
    && for package in *.deb; do \
         dpkg-deb --fsys-tarfile "$package" | tar -x -C /out/root --keep-directory-symlink \
         && dpkg-deb -f "$package" >"/out/root/var/lib/dpkg/status.d/${package%%_*}" || exit 1; \
       done
RUN dpkg-query -s ca-certificates >var/lib/dpkg/status.d/ca-certificates \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt \
    && find usr/share/doc -type f ! -name copyright -delete \
    && rm -rf usr/share/locale usr/share/man usr/share/lintian usr/lib/*/gconv usr/lib/*/audit \
    && printf 'root:x:0:0:root:/root:/usr/sbin/nologin\nvedette:x:1000:1000::/var/lib/vedette:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n' >etc/passwd \
    && printf 'root:x:0:\nvedette:x:1000:\nnogroup:x:65534:\n' >etc/group \
    && printf 'hosts: files dns\n' >etc/nsswitch.conf \
    && ldconfig -r . \
    && install -d -m 1777 tmp && install -d -m 1777 -o 1000 -g 0 var/lib/vedette

FROM small-system AS small-app
COPY --from=packages /out/node usr/local
COPY --from=build /opt/vedette/dist opt/vedette/dist
COPY package.json LICENSE CHANGELOG.md opt/vedette/
COPY examples opt/vedette/examples
RUN ln -s ../../../opt/vedette/dist/cli/main.js usr/local/bin/vedette

FROM scratch AS small
COPY --from=small-app /out/root /
ENV PATH=/usr/local/bin:/usr/bin NODE_ENV=production NODE_USE_SYSTEM_CA=1 \
    HOME=/var/lib/vedette TMPDIR=/var/lib/vedette
WORKDIR /var/lib/vedette
VOLUME /var/lib/vedette
USER 1000
ENTRYPOINT ["tini", "--", "vedette"]

# ---- The service -------------------------------------------------------------------------------------
FROM small AS service
COPY --from=service-packages /opt/vedette/node_modules /opt/vedette/node_modules
ENV SERVICE_DATA_DIR=/var/lib/vedette
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", \
  "require('node:http').get({port:process.env.SERVICE_PORT||3000,path:'/health'},r=>process.exit(r.statusCode===200?0:1)).on('error',()=>process.exit(1))"]
CMD ["service"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Vedette service" \
      org.opencontainers.image.description="Monitoring service: checks, schedules, results, and its REST interface" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Vedette" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# ---- The agent without browsers and scripts ------------------------------------------------------------
FROM small AS uptime
COPY --from=agent-packages /opt/vedette/node_modules /opt/vedette/node_modules
ENV AGENT_DATA_DIR=/var/lib/vedette
EXPOSE 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", \
  "require('node:http').get({port:process.env.AGENT_HEALTH_PORT||8081,path:'/-/readiness'},r=>process.exit(r.statusCode===200?0:1)).on('error',()=>process.exit(1))"]
CMD ["agent"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Vedette agent, uptime" \
      org.opencontainers.image.description="Private location agent for URL, TCP, DNS, ICMP and API checks, without browsers and scripts" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Vedette" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# ---- The agent -----------------------------------------------------------------------------------------
FROM debian AS agent-install
# Node.js and npm of the base, if any, give way to ours.
RUN rm -rf /usr/local/lib/node_modules /usr/local/include/node /usr/local/share/doc/node /opt/yarn* \
    && cd /usr/local/bin && rm -f node nodejs npm npx corepack yarn yarnpkg
# playwright: Playwright's own builds, which it downloads; debian: Debian's packages.
ARG BROWSER_SOURCE=playwright
# headless: Chromium's headless shell, all that an agent starts that is not root; whole: both.
ARG CHROMIUM=headless
# Further packages of Debian, such as fonts.
ARG EXTRA_PACKAGES=""
RUN --mount=type=secret,id=ca \
    case "$BROWSER_SOURCE-$CHROMIUM" in \
      debian-whole) browsers="chromium chromium-headless-shell ffmpeg" ;; \
      debian-headless) browsers="chromium-headless-shell ffmpeg" ;; \
      playwright-whole | playwright-headless) browsers="" ;; \
      *) echo "BROWSER_SOURCE is playwright or debian, CHROMIUM is headless or whole" >&2; exit 1 ;; \
    esac; \
    with-ca apt-get install -q -y --no-install-recommends \
      fonts-liberation fonts-noto-color-emoji $browsers $EXTRA_PACKAGES
COPY --from=packages /out/node /usr/local
COPY --from=packages /out/npm /usr/local
WORKDIR /opt/vedette
COPY --from=agent-packages /opt/vedette/node_modules node_modules
COPY --from=build /opt/vedette/dist dist
COPY package.json LICENSE CHANGELOG.md ./
COPY examples examples
COPY runtimes runtimes
RUN ln -s ../../../opt/vedette/dist/cli/main.js /usr/local/bin/vedette
ARG NPM_CONFIG_REGISTRY
ARG PLAYWRIGHT_DOWNLOAD_HOST
# Ids, with spaces between them: "2025.04 2026.04" for a migration.
ARG RUNTIMES=2026.04
# For Playwright suites, besides npm, pnpm and Yarn: "bun node22", each about 100 MB. What is not here is
# fetched by the agent when a suite needs it.
ARG SUITE_TOOLS=""
RUN --mount=type=secret,id=ca --mount=type=secret,id=npmrc,target=/root/.npmrc \
    --mount=type=cache,target=/root/.npm \
    with-ca vedette runtime install --no-browser --suite-tools "$SUITE_TOOLS" $RUNTIMES
# Playwright knows which libraries its builds need; an older one does not know a newer Debian.
RUN --mount=type=secret,id=ca \
    if [ "$BROWSER_SOURCE" = playwright ]; then \
      newest=runtimes/$(printf '%s\n' $RUNTIMES | sort | tail -n 1); \
      with-ca node $newest/node_modules/playwright-core/cli.js install-deps chromium-headless-shell || exit 1; \
    fi; \
    [ "$CHROMIUM" = whole ] || only=--headless-only; \
    with-ca vedette runtime install --no-suites --browser-source "$BROWSER_SOURCE" $only $RUNTIMES

FROM packages AS runtimes
COPY --from=agent-install /opt/vedette/runtimes runtimes
# Loads every package once more, as slim as it now is. Node names its cache by the user who filled it.
RUN for runtime in runtimes/20*; do \
      [ -d $runtime/node_modules ] || continue; \
      slim $runtime/node_modules \
      && strip $runtime/node_modules/node-linux-*/bin/node \
      && $runtime/node_modules/node-linux-*/bin/node $runtime/smoke.mjs \
      && for cache in $runtime/node_modules/.compile-cache/*-0; do \
           ln -s "$(basename $cache)" "${cache%-0}-1000" || exit 1; \
         done || exit 1; \
    done
# Of the tools of suites too, what nobody runs.
RUN slim runtimes/tools \
    && rm -rf runtimes/tools/npm-*/docs runtimes/tools/npm-*/man \
         runtimes/tools/node-*/include runtimes/tools/node-*/share \
    && for node in runtimes/tools/node-*/bin/node; do [ ! -e $node ] || strip $node || exit 1; done

FROM agent-install AS agent-system
# One npm is enough: that of the suites.
RUN rm -rf /usr/local/lib/node_modules && cd /usr/local/bin && rm -f npm npx \
    && for name in npm npx; do ln -s ../../../opt/vedette/runtimes/tools/npm-*/bin/$name-cli.js $name; done
RUN rm -rf /opt/vedette/runtimes /usr/local/sbin/with-ca /tmp/* /root/.npm /root/.cache \
      /var/cache/apt/* /var/lib/apt/lists/* /var/log/* /usr/share/man /usr/share/locale /usr/share/info \
    && find /usr/share/doc -type f ! -name copyright -delete \
    && find / -xdev -perm /6000 -type f -exec chmod a-s {} + \
    && sed -i '/:1000:/d' /etc/passwd /etc/group \
    && echo 'vedette:x:1000:1000::/var/lib/vedette:/usr/sbin/nologin' >>/etc/passwd \
    && echo 'vedette:x:1000:' >>/etc/group \
    && install -d -m 1777 -o 1000 -g 0 /var/lib/vedette

# One layer for the system and our code, one for the runtimes: what was removed above is in neither.
FROM scratch AS agent
COPY --from=agent-system / /
COPY --from=runtimes /opt/vedette/runtimes /opt/vedette/runtimes
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production \
    NODE_USE_SYSTEM_CA=1 HOME=/var/lib/vedette TMPDIR=/var/lib/vedette \
    AGENT_DATA_DIR=/var/lib/vedette
WORKDIR /var/lib/vedette
VOLUME /var/lib/vedette
USER 1000
EXPOSE 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", \
  "require('node:http').get({port:process.env.AGENT_HEALTH_PORT||8081,path:'/-/readiness'},r=>process.exit(r.statusCode===200?0:1)).on('error',()=>process.exit(1))"]
ENTRYPOINT ["tini", "--", "vedette"]
CMD ["agent"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Vedette agent" \
      org.opencontainers.image.description="Private location agent for synthetic monitoring: URL, API, TCP, DNS, ICMP, browser and multistep checks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Vedette" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# ---- What is in them -----------------------------------------------------------------------------------
FROM packages AS sbom-files
COPY --from=agent-packages /out/npm.cdx.json /sbom/agent.npm.cdx.json
COPY --from=service-packages /out/npm.cdx.json /sbom/service.npm.cdx.json
COPY --from=agent-install /var/lib/dpkg/status /tmp/agent/status
COPY --from=small-system /out/root/var/lib/dpkg/status.d /tmp/small
COPY --from=agent-install /opt/vedette/runtimes runtimes
# The helpers are a copy where the lock file wants a link, about which npm complains.
RUN dpkg-query --admindir=/tmp/agent -W -f '${Package} ${Version} ${Architecture}\n' >/sbom/agent.debian.txt \
    && for file in /tmp/small/*; do \
         sed -n 's/^Package: //p;s/^Version: //p;s/^Architecture: //p' "$file" | paste -s -d ' '; \
       done >/sbom/uptime-and-service.debian.txt \
    && for runtime in runtimes/20*; do \
         [ -d $runtime/node_modules ] || continue; \
         helpers=$runtime/node_modules/@vedette/playwright-helpers; \
         rm -rf $helpers && ln -s ../../../helpers $helpers; \
         npm sbom --prefix $runtime --omit=dev --sbom-format=cyclonedx \
           >/sbom/runtime-$(basename $runtime).npm.cdx.json || exit 1; \
       done \
    && for tool in runtimes/tools/*/package.json; do \
         node -p 'const { name, version } = require(process.argv[1]); `${name} ${version}`' ./$tool || exit 1; \
       done >/sbom/agent.suite-tools.txt

FROM scratch AS sbom
COPY --from=sbom-files /sbom /
