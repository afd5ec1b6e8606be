{{- /* A pod of the engine. `.role` is single, or in a group leader or follower: the leader serves and
       uses the GPUs of its followers through Ray. */ -}}

{{- define "specgate.engine.metadata" -}}
{{- $this := dict "root" .root "component" "engine" -}}
{{- $engine := .root.Values.engine -}}
labels: {{- include "specgate.podLabels" $this | nindent 2 }}
annotations:
  # Of the engine's section only: a change of the gateway's does not restart workers.
  checksum/settings: {{ include "specgate.settings.engine" .root | sha256sum }}
  {{- with $engine.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "specgate.engine.command" -}}
{{- if eq .role "single" -}}
command: [python, -m, engine, --config, /etc/specgate/settings/settings.yaml]
{{- else if eq .role "leader" -}}
# vLLM waits for the GPUs of the followers.
command:
  - sh
  - -ec
  - |
    ray start --head --port=6379 --include-dashboard=false --disable-usage-stats
    exec python -m engine --config /etc/specgate/settings/settings.yaml
{{- else -}}
# Exits when the leader is gone; then the whole group is recreated.
command: [sh, -ec, 'exec ray start --address="$LWS_LEADER_ADDRESS:6379" --disable-usage-stats --block']
{{- end -}}
{{- end -}}

{{- define "specgate.engine.environment" -}}
{{- $values := .root.Values -}}
{{- if ne .role "single" }}
- name: VLLM_HOST_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}
{{- if $values.engine.huggingFaceToken.existingSecret }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ $values.engine.huggingFaceToken.existingSecret }}
      key: {{ $values.engine.huggingFaceToken.secretKey }}
{{- end }}
{{- if $values.workerKey.existingSecret }}
- name: VLLM_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ $values.workerKey.existingSecret }}
      key: {{ $values.workerKey.secretKey }}
{{- end }}
{{- if $values.tracing.endpoint }}
# vLLM's default is gRPC; with HTTP it uses the gateway's endpoint.
- name: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
  value: http/protobuf
- name: OTEL_SERVICE_NAME
  value: specgate-engine
{{- end }}
{{- with $values.engine.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "specgate.engine.probes" -}}
{{- $engine := .root.Values.engine -}}
# The port opens when the model is loaded; only then liveness probes start.
startupProbe:
  httpGet:
    path: /health
    port: http
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: {{ div (add $engine.startSeconds 9) 10 }}
livenessProbe: {{- include "specgate.container.probe" (dict "path" "/health" "probe" $engine.liveness) | nindent 2 }}
readinessProbe: {{- include "specgate.container.probe" (dict "path" "/health" "probe" $engine.readiness) | nindent 2 }}
# Both phases of the drain.
lifecycle:
  preStop:
    exec:
      command:
        - python
        - /etc/specgate/scripts/drain.py
        - --removal-seconds={{ $engine.drain.removalSeconds }}
        - --finish-seconds={{ $engine.drain.finishSeconds }}
{{- end -}}

{{- define "specgate.engine.spec" -}}
{{- $this := dict "root" .root "component" "engine" -}}
{{- $engine := .root.Values.engine -}}
{{ include "specgate.pod.head" $this }}
{{ include "specgate.pod.scheduling" $this | trim }}
{{- with $engine.gpus.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ include "specgate.engine.graceSeconds" .root }}
containers:
  - name: engine
    image: {{ include "specgate.image" $engine.image }}
    imagePullPolicy: {{ $engine.image.pullPolicy }}
    {{- include "specgate.engine.command" . | nindent 4 }}
    {{- with include "specgate.engine.environment" . | trim }}
    env: {{- . | nindent 6 }}
    {{- end }}
    {{- if ne .role "follower" }}
    ports:
      - name: http
        containerPort: 8001
    {{- include "specgate.engine.probes" . | nindent 4 }}
    {{- end }}
    {{- include "specgate.container.resources" (dict "resources" $engine.resources "gpus" $engine.gpus) | nindent 4 }}
    {{- include "specgate.container.security" . | nindent 4 }}
    volumeMounts:
      - name: settings
        mountPath: /etc/specgate/settings
        readOnly: true
      - name: scripts
        mountPath: /etc/specgate/scripts
        readOnly: true
      - name: cache
        mountPath: /var/lib/specgate
      {{- if $engine.suffixShare.existingClaim }}
      - name: suffix-share
        mountPath: /var/lib/specgate-share
      {{- end }}
      - name: shm
        mountPath: /dev/shm
      - name: tmp
        mountPath: /tmp
volumes:
  - name: settings
    configMap:
      name: {{ include "specgate.fullname" .root }}-settings
  - name: scripts
    configMap:
      name: {{ include "specgate.name" $this }}-scripts
  # The default of 64 MiB is too small for communication between ranks.
  - name: shm
    emptyDir:
      medium: Memory
      sizeLimit: {{ $engine.sharedMemory }}
  - name: tmp
    emptyDir: {}
  {{- with $engine.suffixShare.existingClaim }}
  - name: suffix-share
    persistentVolumeClaim:
      claimName: {{ . }}
  {{- end }}
  {{- if $engine.cache.existingClaim }}
  - name: cache
    persistentVolumeClaim:
      claimName: {{ $engine.cache.existingClaim }}
  {{- else if ne .role "single" }}
  # A group is recreated as a whole, possibly on other nodes, so its cache is temporary.
  - name: cache
    ephemeral:
      volumeClaimTemplate:
        spec: {{- include "specgate.engine.claim" .root | nindent 10 }}
  {{- end }}
{{- end -}}

{{- define "specgate.engine.claim" -}}
{{- $cache := .Values.engine.cache -}}
accessModes: [ReadWriteOnce]
{{- with $cache.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ $cache.size }}
{{- end -}}
