{{- /* The two sections of the settings, with what only the chart can know laid over them. */ -}}

{{- define "specgate.settings.gateway" -}}
{{- $set := dict "host" "0.0.0.0" "port" 8000 -}}
{{- if .Values.keys.existingSecret -}}
{{- $_ := set $set "keys" (dict "file" "/etc/specgate/keys/keys.jsonl") -}}
{{- end -}}
{{- if .Values.workerKey.existingSecret -}}
{{- $_ := set $set "upstream" (dict "api_key_file" "/etc/specgate/worker-key/key") -}}
{{- end -}}
{{- if .Values.engine.enabled -}}
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

{{- /* How long a pod of the gateway may take to end: its preStop; both phases of its own drain
       (gateway/settings.py has these defaults); 20 s for last words and several processes
       (gateway/server.py, gateway/cli/processes.py); 10 s to spare. */ -}}
{{- define "specgate.gateway.graceSeconds" -}}
{{- $gateway := .Values.settings.gateway -}}
{{- $accept := dig "drain" "accept_seconds" 5 $gateway -}}
{{- $finish := dig "drain" "finish_seconds" 60 $gateway -}}
{{- add .Values.gateway.preStopSeconds (ceil $accept) (ceil $finish) 30 -}}
{{- end -}}

{{- /* And one of the engine: both phases of its preStop; what vLLM takes to finish after SIGTERM
       (engine/worker/options.py has this default); 60 s to save the suffix index and let go of GPUs. */ -}}
{{- define "specgate.engine.graceSeconds" -}}
{{- $vllm := dig "vllm" "shutdown_timeout" 15 .Values.settings.engine -}}
{{- add .Values.engine.drain.removalSeconds .Values.engine.drain.finishSeconds (ceil $vllm) 60 -}}
{{- end -}}
