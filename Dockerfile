# SPDX-License-Identifier: MIT
# Images of mnemon: server, client and trainer.
#
#   docker build --build-arg COMMIT=$(git rev-parse --short HEAD) -t mnemon:cpu .
#   docker build --target cuda -t mnemon:cuda .
#   docker run -v mnemon:/var/lib/mnemon -p 127.0.0.1:50051:50051 mnemon:cpu
#
# The server serves the checkpoint /var/lib/mnemon/model of its volume, the only place it
# may write to: run it with --read-only --tmpfs /tmp --cap-drop ALL. `scripts/check docker`
# runs the commands below without a container engine.
ARG SOURCE=/src

FROM debian:12-slim AS build
ARG SOURCE
WORKDIR $SOURCE
# Packages change less often than the code.
COPY scripts/common.sh scripts/install-deps scripts/
RUN scripts/install-deps
COPY . .
ARG COMMIT=unknown
RUN cmake --preset release -DMNEMON_TESTS=OFF -DMNEMON_COMMIT=$COMMIT
RUN cmake --build --preset release
RUN cmake --install build/release --strip --prefix /install

FROM debian:12-slim AS build-cuda
ARG SOURCE
WORKDIR $SOURCE
# nvcc of the CUDA that the torch wheel is built with.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl \
 && curl -fsSLo /tmp/cuda-keyring.deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb \
 && dpkg -i /tmp/cuda-keyring.deb \
 && apt-get update \
 && apt-get install -y --no-install-recommends cuda-nvcc-13-0 cuda-cudart-dev-13-0
ENV PATH=/usr/local/cuda/bin:$PATH
COPY scripts/common.sh scripts/install-deps scripts/
# The wheel goes to /opt/mnemon.
ENV XDG_CACHE_HOME=/opt
RUN scripts/install-deps && scripts/install-deps cuda
COPY . .
ARG COMMIT=unknown
RUN cmake --preset cuda -DMNEMON_TESTS=OFF -DMNEMON_COMMIT=$COMMIT
RUN cmake --build --preset cuda
RUN cmake --install build/cuda --strip --prefix /install

FROM debian:12-slim AS runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libabsl20220623 libfmt9 libgrpc++1.51 libprometheus-cpp-core1.0 \
      libprotobuf32 libspdlog1.10 libssl3 \
 && rm -rf /var/lib/apt/lists/*
# A fixed uid with a name. Group 0 may write too: some platforms choose the uid themselves.
RUN useradd --uid 10001 --gid 0 --no-create-home --home-dir /var/lib/mnemon \
      --shell /usr/sbin/nologin mnemon \
 && install -d -o 10001 -g 0 -m 0770 /var/lib/mnemon
VOLUME /var/lib/mnemon
WORKDIR /var/lib/mnemon
EXPOSE 50051 9100
USER 10001:0
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["mnemon", "health"]
CMD ["mnemon-server", "--checkpoint", "/var/lib/mnemon/model", \
     "--listen", "0.0.0.0:50051", "--http", "0.0.0.0:9100"]

FROM runtime AS cuda
COPY --from=build-cuda /opt/mnemon /opt/mnemon
COPY --from=build-cuda /install /usr/local
CMD ["mnemon-server", "--checkpoint", "/var/lib/mnemon/model", "--device", "cuda", \
     "--listen", "0.0.0.0:50051", "--http", "0.0.0.0:9100"]

# The last stage is the one that is built when none is named.
FROM runtime AS cpu
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends libopenblas0-pthread libtorch1.13 \
 && rm -rf /var/lib/apt/lists/*
USER 10001:0
COPY --from=build /install /usr/local
