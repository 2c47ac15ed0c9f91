# SPDX-License-Identifier: MIT
# Images of mnemon: server, client and trainer. BuildKit builds only the stages it needs.
#
#   docker build --build-arg COMMIT=$(git rev-parse --short HEAD) -t mnemon:cpu .
#   docker build --target cuda -t mnemon:cuda .
#
# docs/operations.md says how to run them; `scripts/check docker` runs every command below
# without a container engine.
ARG CUDA=13.0

FROM debian:12 AS build
WORKDIR /src
# Packages change less often than the code.
COPY scripts/common.sh scripts/install-deps scripts/
RUN scripts/install-deps
COPY . .
ARG COMMIT=unknown
RUN cmake --preset release -DMNEMON_TESTS=OFF -DMNEMON_COMMIT=$COMMIT
RUN --mount=type=cache,target=/root/.cache/ccache \
    cmake --build --preset release
RUN cmake --install build/release --strip --prefix /install

# Debian has no nvcc of this version: it is taken from here, and all else from Debian.
FROM nvidia/cuda:${CUDA}.1-devel-ubuntu22.04 AS toolkit

FROM debian:12 AS build-cuda
ARG CUDA
COPY --from=toolkit /usr/local/cuda-${CUDA} /usr/local/cuda
ENV PATH=/usr/local/cuda/bin:$PATH
WORKDIR /src
COPY scripts/common.sh scripts/install-deps scripts/
RUN scripts/install-deps
COPY . .
ARG COMMIT=unknown
RUN cmake --preset cuda -DMNEMON_TESTS=OFF -DMNEMON_COMMIT=$COMMIT
RUN --mount=type=cache,target=/root/.cache/ccache \
    cmake --build --preset cuda
RUN cmake --install build/cuda --strip --prefix /install

FROM debian:12-slim AS runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libabsl20220623 libedit2 libfmt9 libgrpc++1.51 libhwy1 libpcre2-8-0 libprometheus-cpp-core1.0 \
      libprotobuf32 librocksdb7.8 libspdlog1.10 libssl3 libxxhash0 libzstd1 \
 && rm -rf /var/lib/apt/lists/*
# A fixed uid with a name. Group 0 may write too: some platforms choose the uid themselves.
RUN useradd --uid 10001 --gid 0 --no-create-home --home-dir /var/lib/mnemon \
      --shell /usr/sbin/nologin mnemon \
 && install -d -o 10001 -g 0 -m 0770 /var/lib/mnemon
VOLUME /var/lib/mnemon
WORKDIR /var/lib/mnemon
EXPOSE 50051 8000
USER 10001:0
# As any flag, these give way to those of the command. MNEMON_SERVER_HTTP=off turns HTTP off.
ENV MNEMON_SERVER_CHECKPOINT=/var/lib/mnemon/model \
    MNEMON_SERVER_LISTEN=0.0.0.0:50051 \
    MNEMON_SERVER_HTTP=0.0.0.0:8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["mnemon", "health"]
CMD ["mnemon-server"]

# Debian's libtorch: the trainer computes on the CPU, and the server starts without it.
FROM runtime AS with-torch
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends libopenblas0-pthread libtorch1.13 \
 && rm -rf /var/lib/apt/lists/*
USER 10001:0

FROM with-torch AS cuda
COPY --from=build-cuda /install /usr/local
ENV MNEMON_SERVER_DEVICE=cuda \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# The last stage is the one that is built when none is named.
FROM with-torch AS cpu
COPY --from=build /install /usr/local
