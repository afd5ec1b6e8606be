{{- /* Contradictions between values, which the schema cannot see. Each fails with what to change. */ -}}

{{- define "specgate.checks" -}}
{{- $settings := .Values.settings -}}
{{- if not (or .Values.keys.existingSecret $settings.gateway.allow_without_keys) -}}
{{- fail "keys.existingSecret is empty: name the Secret with the API keys, or set settings.gateway.allow_without_keys if something in front checks callers" -}}
{{- end -}}
{{- if and .Values.engine.enabled $settings.gateway.workers (not (include "specgate.pool.engine" .)) -}}
{{- fail "settings.gateway.workers names remote workers, but engine.enabled starts workers of the release: choose one" -}}
{{- end -}}
{{- if not (or .Values.engine.enabled $settings.gateway.workers) -}}
{{- fail "engine.enabled is false: name remote workers in settings.gateway.workers" -}}
{{- end -}}
{{- if eq "sqlite" (toString (dig "responses" "store" "" $settings.gateway)) -}}
{{- fail "settings.gateway.responses.store is sqlite, but pods keep no files: name a database (postgresql://user@host/name), or off" -}}
{{- end -}}
{{- if and .Values.gateway.ingress.enabled (not .Values.gateway.ingress.host) -}}
{{- fail "gateway.ingress.enabled needs gateway.ingress.host" -}}
{{- end -}}
{{- if and .Values.gateway.autoscaling.enabled (gt (int .Values.gateway.autoscaling.minReplicas) (int .Values.gateway.autoscaling.maxReplicas)) -}}
{{- fail "gateway.autoscaling: minReplicas is more than maxReplicas" -}}
{{- end -}}
{{- with .Values.inferencePool -}}
{{- if and .enabled (not .endpointPicker.name) -}}
{{- fail "inferencePool.enabled needs inferencePool.endpointPicker.name, the Service of the endpoint picker" -}}
{{- end -}}
{{- if and .enabled (eq .members "engine") (not $.Values.engine.enabled) -}}
{{- fail "inferencePool.members is engine, but engine.enabled is false: the release has no workers" -}}
{{- end -}}
{{- end -}}
{{- if .Values.engine.enabled -}}
{{- include "specgate.checks.engine" . -}}
{{- end -}}
{{- end -}}

{{- define "specgate.checks.engine" -}}
{{- $engine := .Values.engine -}}
{{- $vllm := .Values.settings.engine.vllm | default dict -}}
{{- if $engine.keda.enabled -}}
{{- if not $engine.keda.serverAddress -}}
{{- fail "engine.keda.enabled needs engine.keda.serverAddress, the URL of Prometheus" -}}
{{- end -}}
{{- if gt (int $engine.keda.minReplicas) (int $engine.keda.maxReplicas) -}}
{{- fail "engine.keda: minReplicas is more than maxReplicas" -}}
{{- end -}}
{{- end -}}
{{- if and $engine.multiNode.enabled (not $engine.gpus.count) -}}
{{- fail "engine.multiNode is for GPUs: set engine.gpus.count" -}}
{{- end -}}
{{- if $engine.gpus.count -}}
{{- $spread := mul ($vllm.tensor_parallel_size | default 1) ($vllm.pipeline_parallel_size | default 1) ($vllm.data_parallel_size | default 1) -}}
{{- $nodes := ternary $engine.multiNode.nodes 1 $engine.multiNode.enabled -}}
{{- $gpus := mul $engine.gpus.count $nodes -}}
{{- if ne (int $spread) (int $gpus) -}}
{{- fail (printf "settings.engine.vllm spreads a model over %d GPUs (tensor x pipeline x data parallel), but engine.gpus.count x nodes is %d" $spread $gpus) -}}
{{- end -}}
{{- end -}}
{{- end -}}
