# Tessera in a container (docs/containers.md).
#   GPUs: docker build -t tessera .
#   CPUs: docker build -t tessera --build-arg BASE_BUILD=debian:12 --build-arg BASE_RUN=debian:12-slim .
# Both bases are of one release of Debian or Ubuntu: what is built on the one runs with the other's libraries.
ARG BASE_BUILD=nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG BASE_RUN=nvidia/cuda:13.0.1-runtime-ubuntu24.04

FROM ${BASE_BUILD} AS build
# A .deb in the build context, as scripts/package.sh leaves one in dist/ on such a system. Without: it is built here.
ARG PACKAGE=
# "80;90": fewer than the default are built faster.
ARG TESSERA_CUDA_ARCHITECTURES=
WORKDIR /src
COPY scripts/install_packages.sh scripts/packages.txt scripts/
RUN [ -n "$PACKAGE" ] || scripts/install_packages.sh
COPY . .
# A newer compiler's new warnings are no reason not to have an image.
RUN if [ -n "$PACKAGE" ]; then mkdir /dist && cp "$PACKAGE" /dist/; else \
      cmake --preset release -DTESSERA_TESTS=OFF -DTESSERA_WERROR=OFF && scripts/package.sh /dist; fi

FROM ${BASE_RUN} AS ship
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /dist/tessera_*.deb && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
# Files of a mounted /work mostly belong to user 1000, which is Ubuntu's own in its images.
RUN ! getent passwd 1000 >/dev/null || userdel -r "$(getent passwd 1000 | cut -d: -f1)" 2>/dev/null; \
    useradd --uid 1000 --create-home --shell /bin/bash tessera && install -d -o tessera -g tessera /work
COPY --chmod=755 scripts/container_entry.sh /usr/local/bin/container_entry
COPY --chmod=755 scripts/container_smoke.sh /usr/local/bin/container_smoke
# Ranks read each other's memory by ptrace's rights, which a container does not have. As many ranks as GPUs is right, however
# few cores the container is shown, and the cores are shared among the threads, not bound one a rank.
ENV LANG=C.UTF-8 \
    OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none
USER tessera
WORKDIR /work
ENTRYPOINT ["container_entry"]
CMD ["trainer", "--help"]
