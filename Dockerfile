# Images of the gateway and its worker. Build one of the targets `gateway`, `cpu` or `cuda`:
#
#   docker build --target cpu --tag specgate:cpu .
#   docker run --rm -p 8000:8000 -v keys:/etc/specgate -v models:/var/lib/specgate \
#     -e SPECGATE_GATEWAY__HOST=0.0.0.0 -e SPECGATE_GATEWAY__KEYS__FILE=/etc/specgate/keys.jsonl \
#     specgate:cpu
#
# Dependencies are installed from the locks before any source is copied, so a change of the source
# rebuilds the wheels alone. Compilers stay in the build stages, except on CUDA, where Triton calls
# a C compiler at run time. The root file system may be read-only: only /var/lib/specgate, /tmp and
# /dev/shm are written to.

FROM python:3.11-bookworm AS dependencies
WORKDIR /srv/specgate
COPY scripts scripts
COPY requirements requirements

FROM dependencies AS dependencies-gateway
RUN scripts/install.sh dependencies gateway

FROM dependencies AS dependencies-cpu
RUN scripts/install.sh dependencies engine

FROM dependencies AS dependencies-cuda
RUN scripts/install.sh dependencies gpu

FROM python:3.11-bookworm AS wheel-gateway
WORKDIR /src
COPY requirements/dev.lock requirements/dev.lock
COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY gateway gateway
RUN PIP_BUILD_CONSTRAINT=requirements/dev.lock pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-bookworm AS wheel-engine
WORKDIR /src
COPY requirements/dev.lock requirements/dev.lock
COPY engine engine
RUN PIP_BUILD_CONSTRAINT=requirements/dev.lock pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./engine

FROM dependencies-gateway AS build-gateway
COPY --from=wheel-gateway /wheels /wheels
RUN .venv/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM dependencies-cpu AS build-cpu
COPY --from=wheel-gateway /wheels /wheels
COPY --from=wheel-engine /wheels /wheels
RUN .venv/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM dependencies-cuda AS build-cuda
COPY --from=wheel-gateway /wheels /wheels
COPY --from=wheel-engine /wheels /wheels
RUN .venv/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.11-slim-bookworm AS final
ENV PATH=/srv/specgate/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/specgate \
    XDG_CACHE_HOME=/var/lib/specgate
WORKDIR /srv/specgate
# Folders that the user may write to; a volume mounted there takes their owner.
COPY --chown=10001:10001 LICENSE /var/lib/specgate/LICENSE
COPY --chown=10001:10001 LICENSE /etc/specgate/LICENSE
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["specgate"]

FROM final AS gateway
COPY --from=build-gateway /srv/specgate/.venv .venv
USER 10001:10001
CMD ["serve", "--config", "gateway-remote"]

FROM final AS final-engine
COPY scripts scripts
RUN scripts/apt.sh runtime

FROM final AS final-cuda
COPY scripts scripts
RUN scripts/apt.sh cuda

# CUDA comes with torch's own packages; the host has the driver (NVIDIA container toolkit).
FROM final-cuda AS cuda
COPY --from=build-cuda /srv/specgate/.venv .venv
USER 10001:10001
CMD ["serve", "--config", "gpu-llama-3.1-8b"]

FROM final-engine AS cpu
COPY --from=build-cpu /srv/specgate/.venv .venv
USER 10001:10001
CMD ["serve", "--config", "cpu-smollm2"]
