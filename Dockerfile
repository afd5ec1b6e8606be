# Images of the gateway and its worker. Build one of the targets `gateway`, `cpu` or `cuda`:
#
#   docker build --target cpu --tag specgate:cpu .
#   docker run --rm -p 8000:8000 -v keys:/etc/specgate -v models:/var/lib/specgate \
#     -e SPECGATE_GATEWAY__HOST=0.0.0.0 -e SPECGATE_GATEWAY__KEYS__FILE=/etc/specgate/keys.jsonl \
#     specgate:cpu
#
# The build stages have compilers and make, the final ones only what runs; for CUDA that includes a
# C compiler, since Triton makes its launchers at run time. Each RUN is a target of the Makefile, so
# that what is installed here is what is tested there. The root file system may be read-only: only
# /var/lib/specgate, /tmp and /dev/shm are written to. `helm/specgate` runs these images.

FROM python:3.11-bookworm AS source
WORKDIR /srv/specgate
COPY pyproject.toml README.md LICENSE Makefile ./
COPY requirements requirements
COPY scripts scripts
COPY gateway gateway
COPY engine engine
COPY configs configs

FROM source AS build-gateway
RUN make install-gateway

FROM source AS build-cpu
RUN make install-engine

FROM source AS build-cuda
RUN make install-gpu

FROM python:3.11-slim-bookworm AS final
ENV PATH=/srv/specgate/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/specgate \
    XDG_CACHE_HOME=/var/lib/specgate
WORKDIR /srv/specgate
# Folders that the user may write; a volume mounted there takes their owner.
COPY --from=source --chown=10001:10001 /srv/specgate/LICENSE /var/lib/specgate/LICENSE
COPY --from=source --chown=10001:10001 /srv/specgate/LICENSE /etc/specgate/LICENSE
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["specgate"]

FROM final AS gateway
COPY --from=build-gateway /srv/specgate /srv/specgate
USER 10001:10001
CMD ["serve", "--config", "configs/gateway-remote.yaml"]

FROM final AS final-engine
COPY scripts scripts
RUN scripts/apt.sh runtime

FROM final AS final-cuda
COPY scripts scripts
RUN scripts/apt.sh cuda

# CUDA comes with torch's own packages; the host gives the driver (NVIDIA container toolkit).
FROM final-cuda AS cuda
COPY --from=build-cuda /srv/specgate /srv/specgate
USER 10001:10001
CMD ["serve", "--config", "configs/gpu-llama-3.1-8b.yaml"]

FROM final-engine AS cpu
COPY --from=build-cpu /srv/specgate /srv/specgate
USER 10001:10001
CMD ["serve", "--config", "configs/cpu-smollm2.yaml"]
