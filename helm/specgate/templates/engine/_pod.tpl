{{- /* A pod of the engine. `.role` is single, or in a group leader or follower: a follower lends
       its GPUs to its leader through Ray and serves nobody. */ -}}

{{- define "specgate.engine.metadata" -}}
{{- $this := dict "root" .root "component" "engine" -}}
{{- $engine := .root.Values.engine -}}
labels: {{- include "specgate.podLabels" $this | nindent 2 }}
annotations:
  # The section that this program reads: a change of the gateway's does not reload a model.
  checksum/settings: {{ include "specgate.settings.engine" .root | sha256sum }}
  {{- with $engine.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "specgate.engine.command" -}}
{{- if eq .role "single" -}}
command: [python, -m, engine, --config, /etc/specgate/settings/settings.yaml]
{{- else if eq .role "leader" -}}
# The model waits for the GPUs of the followers by itself.
command:
  - sh
  - -ec
  - |
    ray start --head --port=6379 --include-dashboard=false --disable-usage-stats
    exec python -m engine --config /etc/specgate/settings/settings.yaml
{{- else -}}
# Ends when the leader is gone; then the whole group is made anew.
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
# vLLM speaks gRPC otherwise; so one endpoint serves the gateway too.
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
# Nothing listens until the model is loaded; liveness begins after that.
startupProbe:
  httpGet:
    path: /health
    port: http
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: {{ div (add $engine.startSeconds 9) 10 }}
livenessProbe: {{- include "specgate.container.probe" (dict "path" "/health" "probe" $engine.liveness) | nindent 2 }}
readinessProbe: {{- include "specgate.container.probe" (dict "path" "/health" "probe" $engine.readiness) | nindent 2 }}
# Both phases of the drain; the script says how.
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
{{ include "specgate.pod.placement" $this | trim }}
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
  # The node's 64 MiB are too few for ranks that talk to each other.
  - name: shm
    emptyDir:
      medium: Memory
      sizeLimit: {{ $engine.sharedMemory }}
  - name: tmp
    emptyDir: {}
  {{- if $engine.cache.existingClaim }}
  - name: cache
    persistentVolumeClaim:
      claimName: {{ $engine.cache.existingClaim }}
  {{- else if ne .role "single" }}
  # A group is made anew as a whole, on other nodes maybe: what it caches ends with it.
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
