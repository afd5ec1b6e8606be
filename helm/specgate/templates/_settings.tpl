{{- /* The two sections of the settings, merged with what the chart sets. */ -}}

{{- define "specgate.settings.gateway" -}}
{{- $set := dict "host" "0.0.0.0" "port" 8000 -}}
{{- if .Values.keys.existingSecret -}}
{{- $_ := set $set "keys" (dict "file" "/etc/specgate/keys/keys.jsonl") -}}
{{- end -}}
{{- if .Values.workerKey.existingSecret -}}
{{- $_ := set $set "upstream" (dict "api_key_file" "/etc/specgate/worker-key/key") -}}
{{- end -}}
{{- if .Values.tenantSecret.existingSecret -}}
{{- $_ := set $set "tenant_secret_file" "/etc/specgate/tenant-secret/key" -}}
{{- end -}}
{{- if .Values.limitsPassword.existingSecret -}}
{{- $_ := set $set "limits" (dict "password_file" "/etc/specgate/limits-password/key") -}}
{{- end -}}
{{- /* Pods keep no files, and replicas share none: responses are kept in a database or not at all. */ -}}
{{- $responses := dict -}}
{{- if not (hasKey (.Values.settings.gateway.responses | default dict) "store") -}}
{{- $_ := set $responses "store" "off" -}}
{{- end -}}
{{- if .Values.responsesPassword.existingSecret -}}
{{- $_ := set $responses "password_file" "/etc/specgate/responses-password/key" -}}
{{- end -}}
{{- if $responses -}}
{{- $_ := set $set "responses" $responses -}}
{{- end -}}
{{- if and .Values.engine.enabled (not .Values.settings.gateway.workers) -}}
{{- $engine := include "specgate.name" (dict "root" . "component" "engine") -}}
{{- $_ := set $set "workers" (list (printf "dns+http://%s.%s.svc:8001" $engine .Release.Namespace)) -}}
{{- end -}}
{{- if .Values.tracing.endpoint -}}
{{- $_ := set $set "tracing" (dict "endpoint" .Values.tracing.endpoint) -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite (deepCopy .Values.settings.gateway) $set) -}}
{{- end -}}

{{- define "specgate.settings.engine" -}}
{{- $set := dict "host" "0.0.0.0" "port" 8001 "cache_dir" "/var/lib/specgate/specgate" -}}
{{- if .Values.engine.suffixShare.existingClaim -}}
{{- $_ := set $set "speculation" (dict "suffix" (dict "share" "/var/lib/specgate-share")) -}}
{{- end -}}
{{- $vllm := dict -}}
{{- if .Values.tracing.endpoint -}}
{{- $_ := set $vllm "otlp_traces_endpoint" .Values.tracing.endpoint -}}
{{- end -}}
{{- if .Values.engine.multiNode.enabled -}}
{{- $_ := set $vllm "distributed_executor_backend" "ray" -}}
{{- end -}}
{{- if $vllm -}}
{{- $_ := set $set "vllm" $vllm -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite (deepCopy .Values.settings.engine) $set) -}}
{{- end -}}

{{- /* The grace period of a gateway pod: preStop; both phases of the gateway's own drain (the defaults
       are those of gateway/settings.py); 20 s to close streams and stop all processes
       (gateway/server.py, gateway/cli/processes.py); 10 s of margin. */ -}}
{{- define "specgate.gateway.graceSeconds" -}}
{{- $gateway := .Values.settings.gateway -}}
{{- $accept := dig "drain" "accept_seconds" 5 $gateway -}}
{{- $finish := dig "drain" "finish_seconds" 60 $gateway -}}
{{- add .Values.gateway.preStopSeconds (ceil $accept) (ceil $finish) 30 -}}
{{- end -}}

{{- /* The grace period of an engine pod: both phases of its preStop; vLLM's own shutdown after SIGTERM
       (the default is that of engine/worker/options.py); 60 s to save the suffix index and free GPUs. */ -}}
{{- define "specgate.engine.graceSeconds" -}}
{{- $vllm := dig "vllm" "shutdown_timeout" 15 .Values.settings.engine -}}
{{- add .Values.engine.drain.removalSeconds .Values.engine.drain.finishSeconds (ceil $vllm) 60 -}}
{{- end -}}
